{{/* The links of the rules, as JSON: the values, or the defaults of `generate alerts` and our own address for the status page. */}}
{{- define "kafka-eos-exporter.alert-links" -}}
{{- $settings := .Values.prometheusRule.settings -}}
{{- $page := "http://kafka-eos-exporter:10618" -}}
{{- if ne .Values.mode "sidecar" -}}
{{- $page = printf "%s://%s.%s.svc:%d" (ternary "https" "http" (include "kafka-eos-exporter.tls" . | eq "true")) (include "kafka-eos-exporter.fullname" .) (include "kafka-eos-exporter.namespace" .) (int .Values.service.port) -}}
{{- end -}}
{{- $repository := "https://github.com/kafka-eos-exporter/kafka-eos-exporter/blob/main/alerts/runbooks" -}}
{{- $runbooks := $repository -}}
{{- with $settings.page_url -}}{{- $page = . -}}{{- $runbooks = printf "%s/runbooks" . -}}{{- end -}}
{{- dict "page" $page "runbooks" ($settings.runbook_url | default $runbooks) "dashboards" ($settings.dashboard_url | default "http://grafana:3000/d") "repository" $repository | toJson -}}
{{- end -}}

{{/* One alert with its links, the labels of every alert, and what the values set for it. Gives "" for one that is disabled. */}}
{{- define "kafka-eos-exporter.alert" -}}
{{- $rule := deepCopy .rule -}}
{{- $links := .links -}}
{{- $override := get .overrides $rule.alert | default dict -}}
{{- if ne (toString $override.enabled) "false" -}}
{{- $runbooks := $links.runbooks -}}
{{- if and (eq $rule.alert "KafkaEosExporterAbsent") (eq $runbooks (printf "%s/runbooks" $links.page)) -}}
{{- $runbooks = $links.repository -}}
{{- end -}}
{{- $_ := set $rule.annotations "runbook_url" (printf "%s/%s%s" $runbooks $rule.alert (ternary ".md" "" (contains "/blob/" $runbooks))) -}}
{{- $_ := set $rule.annotations "dashboard_url" (printf "%s%s" $links.dashboards (trimPrefix "http://grafana:3000/d" $rule.annotations.dashboard_url)) -}}
{{- $_ := set $rule.annotations "page_url" (printf "%s%s" $links.page (trimPrefix "http://kafka-eos-exporter:10618" $rule.annotations.page_url)) -}}
{{- range $key := list "for" "keep_firing_for" -}}
{{- with get $override $key -}}{{- $_ := set $rule $key . -}}{{- end -}}
{{- end -}}
{{- with $override.severity -}}{{- $_ := set $rule.labels "severity" . -}}{{- end -}}
{{- $_ := set $rule "labels" (mergeOverwrite (omit .labels "severity") $rule.labels) -}}
{{- toYaml $rule -}}
{{- end -}}
{{- end -}}

{{/* Refuses overrides of alerts that there are not, and one severity for an alert that has two. */}}
{{- define "kafka-eos-exporter.judge-overrides" -}}
{{- $severities := dict -}}
{{- range $group := .groups -}}
{{- range $group.rules -}}
{{- if .alert -}}
{{- $_ := set $severities .alert (append (default (list) (get $severities .alert)) (.labels.severity | default "both") | uniq) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $alert, $override := .overrides -}}
{{- if not (hasKey $severities $alert) -}}
{{- fail (printf "prometheusRule.overrides.%s: no such alert; there are %s" $alert (keys $severities | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and $override.severity (or (has "both" (get $severities $alert)) (gt (len (get $severities $alert)) 1)) -}}
{{- fail (printf "prometheusRule.overrides.%s.severity: it has both severities; change their thresholds" $alert) -}}
{{- end -}}
{{- end -}}
{{- end -}}
