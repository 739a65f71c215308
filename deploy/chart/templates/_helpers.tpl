{{- /* The labels by which everything of one release is selected. */}}
{{- define "coordd.selector" -}}
app.kubernetes.io/name: coordd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The metadata of an object: (list $ "-suffix"). */}}
{{- define "coordd.metadata" -}}
{{- $ := index . 0 -}}
name: {{ $.Release.Name }}{{ index . 1 }}
namespace: {{ $.Release.Namespace }}
labels:
  {{- include "coordd.selector" $ | nindent 2 }}
  app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ $.Release.Service }}
{{- end }}

{{- /* The domain of the servers' own names, such as coordd-0.coordd-peer.NAMESPACE.svc. */}}
{{- define "coordd.domain" -}}
{{ .Release.Name }}-peer.{{ .Release.Namespace }}.svc
{{- end }}

{{- /* The port of clients. */}}
{{- define "coordd.port" -}}
{{ ternary 2135 2136 .Values.clients.tls }}
{{- end }}
