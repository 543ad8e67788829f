{{/*
The alerts: files/rules.yaml is written by `make generate` from the table in alerts/, with marks where settings stand.
The tests hold what comes out to `kafka-eos-exporter generate alerts` with the same settings.
*/}}

{{/* The settings in force, as JSON: the table's defaults, our own address for the status page, and the values over them. */}}
{{- define "kafka-eos-exporter.alert-settings" -}}
{{- $root := .root -}}
{{- $defaults := .defaults -}}
{{- $given := $root.Values.prometheusRule.settings -}}
{{- range $key, $value := $given -}}
{{- if not (hasKey $defaults $key) -}}
{{- fail (printf "prometheusRule.settings.%s: no such setting; there are %s" $key (keys $defaults | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if not (kindIs "string" $value) -}}
{{- fail (printf "prometheusRule.settings.%s: must be a text" $key) -}}
{{- end -}}
{{- end -}}
{{- $service := printf "%s://%s.%s.svc:%d" (ternary "https" "http" (include "kafka-eos-exporter.tls" $root | eq "true")) (include "kafka-eos-exporter.fullname" $root) (include "kafka-eos-exporter.namespace" $root) (int $root.Values.service.port) -}}
{{- $own := ternary (dict) (dict "page_url" $service) (eq $root.Values.mode "sidecar") -}}
{{- with $given.page_url -}}{{- $_ := set $own "runbook_url" (printf "%s/runbooks" .) -}}{{- end -}}
{{- mergeOverwrite (deepCopy $defaults) $own (deepCopy $given) (dict "repository" $defaults.runbook_url) | toJson -}}
{{- end -}}

{{/* What a mark such as <<runbook_url>> stands for; those of alerts/labels.py are made of selector and group_labels. */}}
{{- define "kafka-eos-exporter.mark" -}}
{{- $name := .mark | trimPrefix "<<" | trimSuffix ">>" -}}
{{- $groups := list -}}
{{- range splitList "," .settings.group_labels -}}{{- with trim . -}}{{- $groups = append $groups . -}}{{- end -}}{{- end -}}
{{- if eq $name "select" -}}
{{- with .settings.selector -}}{{- printf "%s, " . -}}{{- end -}}
{{- else if eq $name "by" -}}
{{- range $groups -}}{{- printf ", %s" . -}}{{- end -}}
{{- else if eq $name "match" -}}
{{- range $groups -}}{{- printf "%s=%%q, " . -}}{{- end -}}
{{- else if eq $name "arguments" -}}
{{- range $groups -}}{{- printf " $labels.%s" . -}}{{- end -}}
{{- else -}}
{{- if not (hasKey .settings $name) -}}{{- fail (printf "files/rules.yaml: what is %s?" .mark) -}}{{- end -}}
{{- get .settings $name -}}
{{- end -}}
{{- end -}}

{{/* A text with its marks filled. */}}
{{- define "kafka-eos-exporter.filled" -}}
{{- $text := .text -}}
{{- $settings := .settings -}}
{{- range regexFindAll "<<[^<>]+>>" $text -1 | uniq -}}
{{- $text = replace . (include "kafka-eos-exporter.mark" (dict "mark" . "settings" $settings)) $text -}}
{{- end -}}
{{- $text | replace ", }" "}" | replace "{}" "" -}}
{{- end -}}

{{/* One rule: settings in it, then what the values say of this alert. Gives "" for one that is switched off. */}}
{{- define "kafka-eos-exporter.rule" -}}
{{- $rule := deepCopy .rule -}}
{{- $settings := .settings -}}
{{- range $key := list "expr" "for" "keep_firing_for" -}}
{{- with get $rule $key -}}
{{- $_ := set $rule $key (include "kafka-eos-exporter.filled" (dict "text" . "settings" $settings)) -}}
{{- end -}}
{{- end -}}
{{- range $key, $text := default (dict) $rule.labels -}}
{{- $_ := set $rule.labels $key (include "kafka-eos-exporter.filled" (dict "text" $text "settings" $settings)) -}}
{{- end -}}
{{- range $key, $text := default (dict) $rule.annotations -}}
{{- $_ := set $rule.annotations $key (include "kafka-eos-exporter.filled" (dict "text" $text "settings" $settings)) -}}
{{- end -}}
{{- if and (eq (default "" $rule.alert) "KafkaEosExporterAbsent") (eq $settings.runbook_url (printf "%s/runbooks" $settings.page_url)) -}}
{{- $_ := set $rule.annotations "runbook_url" (printf "%s/%s" $settings.repository $rule.alert) -}}
{{- end -}}
{{- with (default (dict) $rule.annotations).runbook_url -}}
{{- if contains "/blob/" . -}}{{- $_ := set $rule.annotations "runbook_url" (printf "%s.md" .) -}}{{- end -}}
{{- end -}}
{{- $wanted := default (dict) (get .overrides (default "" $rule.alert)) -}}
{{- range $key := list "for" "keep_firing_for" -}}
{{- with get $wanted $key -}}{{- $_ := set $rule $key . -}}{{- end -}}
{{- end -}}
{{- if $rule.alert -}}
{{- with $wanted.severity -}}{{- $_ := set $rule.labels "severity" . -}}{{- end -}}
{{- $_ := set $rule "labels" (mergeOverwrite (deepCopy .labels) $rule.labels) -}}
{{- end -}}
{{- if ne (toString $wanted.enabled) "false" -}}
{{- toYaml $rule -}}
{{- end -}}
{{- end -}}

{{/* Refuses overrides of alerts that there are not, and one severity for an alert that has two. */}}
{{- define "kafka-eos-exporter.judge-overrides" -}}
{{- $severities := dict -}}
{{- range $group := .groups -}}
{{- range $group.rules -}}
{{- if .alert -}}
{{- $_ := set $severities .alert (append (default (list) (get $severities .alert)) .labels.severity | uniq) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $alert, $wanted := .overrides -}}
{{- if not (hasKey $severities $alert) -}}
{{- fail (printf "prometheusRule.overrides.%s: no such alert; there are %s" $alert (keys $severities | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and $wanted.severity (gt (len (get $severities $alert)) 1) -}}
{{- fail (printf "prometheusRule.overrides.%s.severity: it has variants of both severities; change their thresholds" $alert) -}}
{{- end -}}
{{- end -}}
{{- end -}}
