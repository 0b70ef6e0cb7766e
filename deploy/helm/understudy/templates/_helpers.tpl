{{- define "understudy.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "understudy.selector" -}}
app: understudy
app.kubernetes.io/instance: {{ .root.Release.Name }}
part: {{ .part }}
{{- end -}}

{{- define "understudy.labels" -}}
{{ include "understudy.selector" . }}
app.kubernetes.io/name: understudy
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- /* What a namespace with the standard `restricted` asks of a pod. */ -}}
{{- define "understudy.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - {name: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "understudy.container" -}}
{{- $image := .Values.image }}
{{- if and $image.requireDigest (not $image.digest) }}{{ fail "image.digest is missing, and image.requireDigest demands it: set sha256:… of the image that you pushed." }}{{ end }}
image: {{ if $image.digest }}{{ printf "%s@%s" $image.repository $image.digest | quote }}{{ else }}{{ printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) | quote }}{{ end }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "understudy.environment" -}}
envFrom:
  - configMapRef: {name: {{ include "understudy.name" .root }}}
  - secretRef: {name: {{ .root.Values.secrets.main | quote }}}
{{- range .secrets }}
{{- if . }}
  - secretRef: {name: {{ . | quote }}, optional: true}
{{- end }}
{{- end }}
{{- with .variables }}
env:
{{- range $name, $value := . }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end -}}
