{{/* The container of the agent, the same in its own pods and beside others. Takes root. */}}
{{- define "kafka-eos-exporter.container" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $image := $values.image -}}
{{- $state := ternary "sidecar-state" "state" (eq $values.mode "sidecar") -}}
name: kafka-eos-exporter
image: {{ with $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default $root.Chart.AppVersion $image.tag }}{{ end }}
imagePullPolicy: {{ $image.pullPolicy }}
args:
  - run
  {{- if include "kafka-eos-exporter.has-config" $root }}
  - --config=/etc/kafka-eos-exporter/config/{{ ternary "config.yml" $values.existingConfig.key (include "kafka-eos-exporter.own-config" $root | eq "true") }}
  {{- end }}
  {{- with $values.bootstrapServers }}
  - --bootstrap-server={{ . }}
  {{- end }}
  - --web.listen-address=:{{ int $values.containerPort }}
  {{- if include "kafka-eos-exporter.has-web-config" $root }}
  - --web.config.file=/etc/kafka-eos-exporter/web/{{ $values.webConfig.key }}
  {{- end }}
  - --state.dir={{ $values.state.path }}
  - --log.level={{ $values.log.level }}
  - --log.format={{ $values.log.format }}
  {{- with $values.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: {{ ternary "eos-metrics" "http" (eq $values.mode "sidecar") }}
    containerPort: {{ int $values.containerPort }}
    protocol: TCP
startupProbe:
  {{- include "kafka-eos-exporter.probe" (dict "root" $root "path" "/-/healthy" "over" $values.startupProbe "own" (dict "periodSeconds" 1 "failureThreshold" 60)) | nindent 2 }}
livenessProbe:
  {{- include "kafka-eos-exporter.probe" (dict "root" $root "path" "/-/healthy" "over" $values.livenessProbe "own" (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 6)) | nindent 2 }}
readinessProbe:
  {{- include "kafka-eos-exporter.probe" (dict "root" $root "path" "/-/ready" "over" $values.readinessProbe "own" (dict "periodSeconds" 5 "timeoutSeconds" 5 "failureThreshold" 3)) | nindent 2 }}
{{- with $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- /* Beside others the pod's security is theirs: what ours says of users goes with the container. */}}
{{- $users := ternary (pick $values.podSecurityContext "runAsNonRoot" "runAsUser" "runAsGroup" "seccompProfile") dict (eq $values.mode "sidecar") }}
{{- with merge (deepCopy $values.securityContext) $users }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: {{ $state }}
    mountPath: {{ $values.state.path }}
  - name: {{ ternary "sidecar-tmp" "tmp" (eq $values.mode "sidecar") }}
    mountPath: /tmp
  {{- with include "kafka-eos-exporter.settings-mounts" (dict "root" $root) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- if include "kafka-eos-exporter.has-web-config" $root }}
  - name: eos-web
    mountPath: /etc/kafka-eos-exporter/web
    readOnly: true
  {{- end }}
  {{- with $values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A probe: over HTTP, over HTTPS, or only by a connection where the agent would ask the kubelet who it is. */}}
{{- define "kafka-eos-exporter.probe" -}}
{{- $port := ternary "eos-metrics" "http" (eq .root.Values.mode "sidecar") -}}
{{- $get := dict "path" .path "port" $port -}}
{{- if include "kafka-eos-exporter.tls" .root -}}
{{- $_ := set $get "scheme" "HTTPS" -}}
{{- end -}}
{{- $how := dict "httpGet" $get -}}
{{- if include "kafka-eos-exporter.authentication" .root -}}
{{- $how = dict "tcpSocket" (dict "port" $port) -}}
{{- end -}}
{{- range $other := list "httpGet" "tcpSocket" "exec" "grpc" -}}
{{- if hasKey $.over $other -}}{{- $how = dict -}}{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .own) $how (deepCopy .over)) -}}
{{- end -}}

{{/* The volumes of the container. Takes root; without persistence, or in sidecar mode, the state's is among them. */}}
{{- define "kafka-eos-exporter.volumes" -}}
{{- $values := .root.Values -}}
{{- $sidecar := eq $values.mode "sidecar" -}}
{{- if or $sidecar (not $values.state.persistence.enabled) }}
- name: {{ ternary "sidecar-state" "state" $sidecar }}
  emptyDir:
    sizeLimit: {{ $values.state.sizeLimit }}
{{- end }}
- name: {{ ternary "sidecar-tmp" "tmp" $sidecar }}
  emptyDir:
    sizeLimit: 16Mi
{{- include "kafka-eos-exporter.settings-volumes" . }}
{{- if include "kafka-eos-exporter.has-web-config" .root }}
- name: eos-web
  secret:
    secretName: {{ default (printf "%s-web" (include "kafka-eos-exporter.fullname" .root)) $values.webConfig.existingSecret }}
{{- end }}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The settings and the Secrets that they name, as files: the agent's, and those of the jobs. Takes root. */}}
{{- define "kafka-eos-exporter.settings-mounts" -}}
{{- if include "kafka-eos-exporter.has-config" .root }}
- name: eos-config
  mountPath: /etc/kafka-eos-exporter/config
  readOnly: true
{{- end }}
{{- range $at, $mount := .root.Values.secretMounts }}
- name: eos-secret-{{ $at }}
  mountPath: {{ $mount.mountPath }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* Their volumes. Takes root. */}}
{{- define "kafka-eos-exporter.settings-volumes" -}}
{{- $values := .root.Values -}}
{{- if include "kafka-eos-exporter.has-config" .root }}
- name: eos-config
  {{- if $values.existingConfig.configMap }}
  configMap:
    name: {{ $values.existingConfig.configMap }}
  {{- else if or $values.existingConfig.secret $values.secretConfig }}
  secret:
    secretName: {{ default (include "kafka-eos-exporter.fullname" .root) $values.existingConfig.secret }}
  {{- else }}
  configMap:
    name: {{ include "kafka-eos-exporter.fullname" .root }}
  {{- end }}
{{- end }}
{{- range $at, $mount := $values.secretMounts }}
- name: eos-secret-{{ $at }}
  secret:
    {{- toYaml (omit $mount "mountPath") | nindent 4 }}
{{- end }}
{{- end -}}

{{/*
For pods of your own, with this chart as a dependency and mode: sidecar. Both take the dependency's scope:

  containers:
    - {{- include "kafka-eos-exporter.sidecar" (index .Subcharts "kafka-eos-exporter") | nindent 6 }}
  volumes:
    {{- include "kafka-eos-exporter.sidecar-volumes" (index .Subcharts "kafka-eos-exporter") | nindent 4 }}
*/}}
{{- define "kafka-eos-exporter.sidecar" -}}
{{- if ne .Values.mode "sidecar" -}}{{- fail "the sidecar's template wants mode: sidecar in the values of kafka-eos-exporter" -}}{{- end -}}
{{- include "kafka-eos-exporter.container" (dict "root" .) -}}
{{- end -}}

{{- define "kafka-eos-exporter.sidecar-volumes" -}}
{{- include "kafka-eos-exporter.volumes" (dict "root" .) | trim -}}
{{- end -}}
