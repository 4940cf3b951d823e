{{/* The name of everything: `mainstay status` finds the operator by it. One release per namespace. */}}
{{- define "mainstay.name" -}}
mainstay-operator
{{- end }}

{{- define "mainstay.labels" -}}
app.kubernetes.io/name: {{ include "mainstay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "mainstay.selector" -}}
app.kubernetes.io/name: {{ include "mainstay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mainstay.account" -}}
{{- default (include "mainstay.name" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "mainstay.watched" -}}
{{- default .Release.Namespace .Values.watchNamespace }}
{{- end }}

{{- define "mainstay.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}
