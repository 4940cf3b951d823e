{{- define "memgraph-ha.name" -}}
{{- default .Release.Name .Values.name }}
{{- end }}

{{- define "memgraph-ha.labels" -}}
app.kubernetes.io/name: memgraph
app.kubernetes.io/instance: {{ include "memgraph-ha.name" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Whether the operator runs gateways: the kind's default is yes. */}}
{{- define "memgraph-ha.gateway" -}}
{{- $gateway := default dict .Values.spec.gateway }}
{{- if or (not (hasKey $gateway "enabled")) $gateway.enabled }}yes{{ end }}
{{- end }}

{{/* Whether the release can be named after: the kind says the same, but only once it is installed. */}}
{{- define "memgraph-ha.checks" -}}
{{- $name := include "memgraph-ha.name" . }}
{{- if gt (len $name) 40 }}
{{- fail (printf "the name `%s` is longer than 40 characters: pods, claims and gateways are named after it; give a shorter name" $name) }}
{{- end }}
{{- if contains "." $name }}
{{- fail (printf "the name `%s` has a dot, and it is the name of a Service; give another name" $name) }}
{{- end }}
{{- if hasSuffix ":latest" (default "" .Values.spec.image) }}
{{- fail "spec.image is `latest`: what runs must not depend on when it was pulled; name a version" }}
{{- end }}
{{- end }}
