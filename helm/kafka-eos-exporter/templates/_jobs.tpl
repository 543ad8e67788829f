{{/* The pods of the audits and of the history: Spark's driver, and its executors where there are any. */}}

{{/* Labels of both kinds of pods. Takes root and component. */}}
{{- define "kafka-eos-exporter.job-labels" -}}
app.kubernetes.io/name: {{ include "kafka-eos-exporter.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: kafka-eos-exporter
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Takes root, and the values of the jobs. */}}
{{- define "kafka-eos-exporter.job-image" -}}
{{- $image := .root.Values.image -}}
{{- $own := .jobs.image -}}
{{ with $image.registry }}{{ . }}/{{ end }}{{ default $image.repository $own.repository }}
{{- if $own.digest }}@{{ $own.digest }}{{ else }}:{{ default (printf "%s-spark" (default .root.Chart.AppVersion $image.tag)) $own.tag }}{{ end }}
{{- end -}}

{{/* What both kinds of pods share. */}}
{{- define "kafka-eos-exporter.job-pod" -}}
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
The driver's command. spark-submit starts it, as the image has the connectors: started otherwise the command looks for them
in a repository. Executors reach the driver by its pod's address, so neither a Service nor DNS is needed. Takes root, and the
values of the jobs.
*/}}
{{- define "kafka-eos-exporter.job-command" -}}
{{- $image := include "kafka-eos-exporter.job-image" . -}}
- spark-submit
- --driver-memory
- {{ .jobs.driverMemory }}
{{- if .jobs.executors }}
- --conf=spark.master=k8s://https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)
- --conf=spark.driver.host=$(POD_IP)
- --conf=spark.driver.bindAddress=$(POD_IP)
- --conf=spark.kubernetes.namespace={{ include "kafka-eos-exporter.namespace" .root }}
- --conf=spark.kubernetes.driver.pod.name=$(POD_NAME)
- --conf=spark.kubernetes.container.image={{ $image }}
- --conf=spark.kubernetes.container.image.pullPolicy={{ .root.Values.image.pullPolicy }}
- --conf=spark.kubernetes.executor.podTemplateFile=/etc/kafka-eos-exporter/executor/pod.yaml
- --conf=spark.kubernetes.executor.podTemplateContainerName=executor
# What these would make or remove is nothing that the Role allows, and nothing that is needed.
- --conf=spark.kubernetes.executor.disableConfigMap=true
- --conf=spark.kubernetes.driver.service.deleteOnTermination=false
- --conf=spark.kubernetes.driver.ownPersistentVolumeClaim=false
- --conf=spark.executor.instances={{ int .jobs.executors }}
- --conf=spark.executor.memory={{ .jobs.executorMemory }}
{{- else }}
- --conf=spark.master=local[{{ int .jobs.cores }}]
{{- end }}
{{- range $key, $value := .jobs.conf }}
- --conf={{ $key }}={{ $value }}
{{- end }}
- /opt/kafka-eos-exporter/job.py
{{- end -}}

{{/* Which cluster, as arguments of both commands: the agent's settings. */}}
{{- define "kafka-eos-exporter.job-cluster" -}}
{{- if include "kafka-eos-exporter.has-config" . }}
- --config=/etc/kafka-eos-exporter/config/{{ ternary "config.yml" .Values.existingConfig.key (include "kafka-eos-exporter.own-config" . | eq "true") }}
{{- end }}
{{- with .Values.bootstrapServers }}
- --bootstrap-server={{ . }}
{{- end }}
{{- end -}}

{{/* What the driver's container has beside its command and arguments. Takes root, and the values of the jobs. */}}
{{- define "kafka-eos-exporter.job-container" -}}
{{- $values := .root.Values -}}
image: {{ include "kafka-eos-exporter.job-image" . }}
imagePullPolicy: {{ $values.image.pullPolicy }}
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
{{- with .jobs.resources }}
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
  {{- if .jobs.executors }}
  - name: executor
    mountPath: /etc/kafka-eos-exporter/executor
    readOnly: true
  {{- end }}
  {{- with include "kafka-eos-exporter.settings-mounts" (dict "root" .root) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The driver's volumes. Takes root, the values of the jobs, and executor, the name of the executors' ConfigMap. */}}
{{- define "kafka-eos-exporter.job-volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .jobs.scratch }}
{{- if .jobs.executors }}
- name: executor
  configMap:
    name: {{ .executor }}
{{- end }}
{{- with include "kafka-eos-exporter.settings-volumes" (dict "root" .root) | trim }}
{{- . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "kafka-eos-exporter.job-account" -}}
{{- default (printf "%s-%s" (include "kafka-eos-exporter.fullname" .root) .name) .jobs.serviceAccount.name -}}
{{- end -}}

{{/* The driver's account, and what it needs to start its executors, and no more. Takes root, the values of the jobs, and name. */}}
{{- define "kafka-eos-exporter.job-grants" -}}
{{- $account := include "kafka-eos-exporter.job-account" . -}}
{{- $name := printf "%s-%s" (include "kafka-eos-exporter.fullname" .root) .name -}}
{{- if .jobs.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "kafka-eos-exporter.metadata" (dict "root" .root "name" $account "annotations" .jobs.serviceAccount.annotations) | nindent 2 }}
automountServiceAccountToken: false
{{- end }}
{{- if .jobs.executors }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "kafka-eos-exporter.metadata" (dict "root" .root "name" $name) | nindent 2 }}
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [create, get, list, watch, delete, deletecollection]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "kafka-eos-exporter.metadata" (dict "root" .root "name" $name) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $account }}
    namespace: {{ include "kafka-eos-exporter.namespace" .root }}
{{- end }}
{{- end -}}
