{{/* Names and labels. Selectors never change between versions of the chart: Kubernetes would refuse the upgrade. */}}

{{- define "kafka-eos-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kafka-eos-exporter.fullname" -}}
{{- $name := include "kafka-eos-exporter.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "kafka-eos-exporter.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "kafka-eos-exporter.serviceAccount" -}}
{{- default (ternary (include "kafka-eos-exporter.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* What workloads, the Service and the monitors select: the agents of this release. */}}
{{- define "kafka-eos-exporter.selector" -}}
app.kubernetes.io/name: {{ include "kafka-eos-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}

{{/* Labels of every object. */}}
{{- define "kafka-eos-exporter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "kafka-eos-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: kafka-eos-exporter
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of an object. Takes root, and optionally name, namespace, labels and annotations. */}}
{{- define "kafka-eos-exporter.metadata" -}}
{{- $root := .root -}}
name: {{ default (include "kafka-eos-exporter.fullname" $root) .name }}
namespace: {{ default (include "kafka-eos-exporter.namespace" $root) .namespace }}
labels:
  {{- include "kafka-eos-exporter.labels" $root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Who may reach the port: the peers of the values, and nobody without any. */}}
{{- define "kafka-eos-exporter.policy-ingress" -}}
{{- $peers := concat .prometheus .ingress .from -}}
{{- if $peers -}}
ingress:
  - ports:
      - port: http
        protocol: TCP
    from:
      {{- toYaml $peers | nindent 6 }}
{{- else -}}
ingress: []
{{- end -}}
{{- end -}}
