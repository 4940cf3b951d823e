{{/* What the schema cannot say, or cannot say well: each ends the installation with one sentence. */}}
{{- define "mainstay.checks" -}}
{{- if eq .Values.image.tag "latest" }}
{{- fail "image.tag is `latest`: what runs must not depend on when it was pulled; name a version, or image.digest" }}
{{- end }}
{{- if and .Values.image.tag .Values.image.digest }}
{{- fail "image.tag and image.digest are both given; remove one of them" }}
{{- end }}
{{- if and .Values.watchNamespace (eq .Values.scope "Cluster") }}
{{- fail "watchNamespace is given and scope is Cluster, which is all namespaces; write scope: Namespace, or remove it" }}
{{- end }}
{{- if and (not .Values.rbac.create) (not .Values.serviceAccount.name) }}
{{- fail "rbac.create is false and serviceAccount.name is empty: name an account that has the rights" }}
{{- end }}
{{- with .Values.podDisruptionBudget }}
{{- if and .enabled (not (kindIs "string" .minAvailable)) (gt (int $.Values.replicas) 1) (ge (int .minAvailable) (int $.Values.replicas)) }}
{{- fail "podDisruptionBudget.minAvailable is not less than replicas: no node could ever be drained" }}
{{- end }}
{{- end }}
{{- end }}
