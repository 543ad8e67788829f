{{/* The pods of the audits: Spark's driver, and its executors where there are any. */}}

{{- define "kafka-eos-exporter.audit-labels" -}}
app.kubernetes.io/name: {{ include "kafka-eos-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: audit
app.kubernetes.io/part-of: kafka-eos-exporter
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kafka-eos-exporter.audit-image" -}}
{{- $image := .Values.image -}}
{{- $own := .Values.audits.image -}}
{{ with $image.registry }}{{ . }}/{{ end }}{{ default $image.repository $own.repository }}
{{- if $own.digest }}@{{ $own.digest }}{{ else }}:{{ default (printf "%s-spark" (default .Chart.AppVersion $image.tag)) $own.tag }}{{ end }}
{{- end -}}

{{/* What both kinds of pods share. */}}
{{- define "kafka-eos-exporter.audit-pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The driver. spark-submit starts it, as the image has the connectors: started otherwise the command looks for them in a
repository. Executors reach the driver by its pod's address, so neither a Service nor DNS is needed.
*/}}
{{- define "kafka-eos-exporter.audit-container" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $audits := $values.audits -}}
image: {{ include "kafka-eos-exporter.audit-image" $root }}
imagePullPolicy: {{ $values.image.pullPolicy }}
command:
  - spark-submit
  - --driver-memory
  - {{ $audits.driverMemory }}
  {{- if $audits.executors }}
  - --conf=spark.master=k8s://https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)
  - --conf=spark.driver.host=$(POD_IP)
  - --conf=spark.driver.bindAddress=$(POD_IP)
  - --conf=spark.kubernetes.namespace={{ include "kafka-eos-exporter.namespace" $root }}
  - --conf=spark.kubernetes.driver.pod.name=$(POD_NAME)
  - --conf=spark.kubernetes.container.image={{ include "kafka-eos-exporter.audit-image" $root }}
  - --conf=spark.kubernetes.container.image.pullPolicy={{ $values.image.pullPolicy }}
  - --conf=spark.kubernetes.executor.podTemplateFile=/etc/kafka-eos-exporter/executor/pod.yaml
  - --conf=spark.kubernetes.executor.podTemplateContainerName=executor
  # What these would make or remove is nothing that the Role allows, and nothing that is needed.
  - --conf=spark.kubernetes.executor.disableConfigMap=true
  - --conf=spark.kubernetes.driver.service.deleteOnTermination=false
  - --conf=spark.kubernetes.driver.ownPersistentVolumeClaim=false
  - --conf=spark.executor.instances={{ int $audits.executors }}
  - --conf=spark.executor.memory={{ $audits.executorMemory }}
  {{- else }}
  - --conf=spark.master=local[{{ int $audits.cores }}]
  {{- end }}
  {{- range $key, $value := $audits.conf }}
  - --conf={{ $key }}={{ $value }}
  {{- end }}
  - /opt/kafka-eos-exporter/job.py
args:
  - audit
  {{- if include "kafka-eos-exporter.has-config" $root }}
  - --config=/etc/kafka-eos-exporter/config/{{ ternary "config.yml" $values.existingConfig.key (include "kafka-eos-exporter.own-config" $root | eq "true") }}
  {{- end }}
  {{- with $values.bootstrapServers }}
  - --bootstrap-server={{ . }}
  {{- end }}
  - --name={{ .job.name }}
  - --topic={{ .job.topic }}
  {{- range .job.args }}
  - {{ . | quote }}
  {{- end }}
  {{- range $audits.args }}
  - {{ . | quote }}
  {{- end }}
env:
  - name: POD_IP
    valueFrom:
      fieldRef: {fieldPath: status.podIP}
  - name: POD_NAME
    valueFrom:
      fieldRef: {fieldPath: metadata.name}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $audits.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if $audits.executors }}
  - name: executor
    mountPath: /etc/kafka-eos-exporter/executor
    readOnly: true
  {{- end }}
  {{- with include "kafka-eos-exporter.settings-mounts" (dict "root" $root) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $audits.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
