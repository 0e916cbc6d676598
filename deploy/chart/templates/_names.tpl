{{- define "s3csi.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "s3csi.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "s3csi.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "s3csi.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "s3csi.labels" -}}
{{ include "s3csi.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "s3csi.selector" -}}
app.kubernetes.io/name: {{ include "s3csi.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "s3csi.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{/* Of Mountpoint Pods with the engine mount-s3: ours has no such program. */}}
{{- define "s3csi.mountS3Image" -}}
{{- $image := .Values.mountpointPod.mountS3.image -}}
{{- if not $image.repository -}}
{{- fail "mountpointPod.mountS3.image.repository is empty: with mountpointPod.engine mount-s3, name an image that has the driver and mount-s3, see docs/mount-s3.md" -}}
{{- end -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}

{{/* Refuses a memory limit with which the driver's own engine would serve no volume; the controller checks the other quantities too. */}}
{{- define "s3csi.checkMemoryLimit" -}}
{{- $limits := (.Values.mountpointPod.resources).limits | default dict -}}
{{- $memory := $limits.memory | default "" | toString -}}
{{- if and (ne .Values.mountpointPod.engine "mount-s3") (regexMatch "^[0-9.]+(m|[KM]i|[kM])?$" $memory) -}}
{{- $factors := dict "m" 0.001 "" 1.0 "k" 1000.0 "Ki" 1024.0 "M" 1000000.0 "Mi" 1048576.0 -}}
{{- $bytes := mulf (regexFind "^[0-9.]+" $memory | float64) (get $factors (regexFind "[a-zA-Z]*$" $memory)) -}}
{{- if lt $bytes 100663296.0 -}}
{{- fail (printf "mountpointPod.resources.limits.memory is %q: the engine s3csi needs at least 96Mi" $memory) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "s3csi.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Without it every volume would fail, long after the install. */}}
{{- define "s3csi.endpointUrl" -}}
{{- $url := .Values.s3.endpointUrl -}}
{{- $hint := "set it to the URL of your S3 server, e.g. --set s3.endpointUrl=https://s3.my-company.net" -}}
{{- if not $url -}}
{{- fail (printf "s3.endpointUrl is empty: %s" $hint) -}}
{{- else if regexMatch "^[a-z]+://([^/:]*\\.)?example\\.(com|net|org)\\.?(:[0-9]+)?(/|$)" (lower $url) -}}
{{- fail (printf "s3.endpointUrl is %s, which is only an example: %s" $url $hint) -}}
{{- end -}}
{{- $url -}}
{{- end -}}

{{/* The S3 server, for both roles that talk to it. */}}
{{- define "s3csi.endpointEnv" -}}
- name: AWS_ENDPOINT_URL
  value: {{ include "s3csi.endpointUrl" . | quote }}
- name: AWS_REGION
  value: {{ .Values.s3.region | quote }}
{{- end -}}

{{/* The driver's credentials as a volume and not as variables: rotated ones are used without a restart. */}}
{{- define "s3csi.credentialsVolume" -}}
name: credentials
secret:
  secretName: {{ .Values.s3CredentialSecret.name }}
  optional: true
  items:
    {{- with .Values.s3CredentialSecret }}
    - { key: {{ .accessKeyId }}, path: access_key_id }
    - { key: {{ .secretAccessKey }}, path: secret_access_key }
    - { key: {{ .sessionToken }}, path: session_token }
    {{- end }}
{{- end -}}

{{/* Of a container that serves /healthz and /readyz on its port "health". */}}
{{- define "s3csi.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  initialDelaySeconds: 10
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 2
  timeoutSeconds: 5
{{- end -}}

{{/* Values written for a Go driver carry klog's numbers. */}}
{{- define "s3csi.logLevel" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else if ge (int .) 5 -}}debug{{- else -}}info{{- end -}}
{{- end -}}

{{- define "s3csi.isOpenShift" -}}
{{- if kindIs "bool" .Values.isOpenShift -}}{{ .Values.isOpenShift }}
{{- else -}}{{ .Capabilities.APIVersions.Has "security.openshift.io/v1" }}{{- end -}}
{{- end -}}

{{/* builtin, sidecar or none. */}}
{{- define "s3csi.provisioner" -}}
{{- $mode := .Values.controller.provisioner.mode -}}
{{- if and (eq $mode "builtin") (not .Values.controller.provision) -}}none{{- else -}}{{ $mode }}{{- end -}}
{{- end -}}
