{{/* Where the agent's settings are kept. */}}

{{- define "kafka-eos-exporter.own-config" -}}
{{- if and .Values.config (not .Values.existingConfig.configMap) (not .Values.existingConfig.secret) -}}true{{- end -}}
{{- end -}}

{{/* true when there is a file of settings, ours or an existing one. */}}
{{- define "kafka-eos-exporter.has-config" -}}
{{- if or .Values.config .Values.existingConfig.configMap .Values.existingConfig.secret -}}true{{- end -}}
{{- end -}}

{{- define "kafka-eos-exporter.has-web-config" -}}
{{- if or .Values.webConfig.content .Values.webConfig.existingSecret -}}true{{- end -}}
{{- end -}}

{{- define "kafka-eos-exporter.tls" -}}
{{- if ternary .Values.webConfig.tls (hasKey .Values.webConfig.content "tls_server_config") (ne .Values.webConfig.existingSecret "") -}}true{{- end -}}
{{- end -}}

{{/* true when a probe of the kubelet's, which has no password and no certificate, would be refused. */}}
{{- define "kafka-eos-exporter.authentication" -}}
{{- $content := .Values.webConfig.content -}}
{{- $clients := dig "tls_server_config" "client_auth_type" "" $content | hasPrefix "Require" -}}
{{- if ternary .Values.webConfig.authentication (or $clients (not (empty $content.basic_auth_users))) (ne .Values.webConfig.existingSecret "") -}}true{{- end -}}
{{- end -}}

{{/* Refuses settings that cannot work, in words of the chart's values. */}}
{{- define "kafka-eos-exporter.judge" -}}
{{- if and .Values.existingConfig.configMap .Values.existingConfig.secret -}}
{{- fail "existingConfig: set configMap or secret, not both" -}}
{{- end -}}
{{- if and .Values.config (or .Values.existingConfig.configMap .Values.existingConfig.secret) -}}
{{- fail "config and existingConfig: set one of them" -}}
{{- end -}}
{{- if and .Values.webConfig.content .Values.webConfig.existingSecret -}}
{{- fail "webConfig: set content or existingSecret, not both" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "serviceMonitor and podMonitor: both would scrape the same pods twice; enable one" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (eq .Values.mode "sidecar") -}}
{{- fail "serviceMonitor: in sidecar mode there is no Service; enable podMonitor instead" -}}
{{- end -}}
{{- if and (not .Values.bootstrapServers) (not (include "kafka-eos-exporter.has-config" .)) (not .Values.extraEnv) (not .Values.extraEnvFrom) -}}
{{- fail "which cluster? Set bootstrapServers, or config with its clusters, or existingConfig" -}}
{{- end -}}
{{- if not .Values.secretConfig -}}
{{- include "kafka-eos-exporter.no-secrets" (dict "name" "config" "config" .Values.config "instead" "secretMounts, or set secretConfig: true") -}}
{{- end -}}
{{- end -}}

{{/* Refuses passwords in settings that a ConfigMap would keep. Takes name, config and instead. */}}
{{- define "kafka-eos-exporter.no-secrets" -}}
{{- range $key := regexFindAll "\"(sasl[._]password|ssl[._]key[._]password|ssl[._]key[._]pem|ssl[._](key|trust)store[._](password|key)|sasl[._]jaas[._]config|sasl[._]oauthbearer[._]client[._](credentials[._]client[._])?secret|token|password)\":" (toJson .config) -1 -}}
{{- fail (printf "%s has %s, and a ConfigMap is no place for it: use its .file (or _file) form with %s" $.name (trimSuffix ":" $key) $.instead) -}}
{{- end -}}
{{- end -}}
