{{/*
The alerts: files/rules.yaml is written by `make generate` from the table in alerts/, with marks where settings stand.
The tests hold what comes out to `kafka-eos-exporter generate alerts` with the same settings.
*/}}

{{/* The settings in force, as JSON: the table's defaults, our own address for the runbooks, and the values over them. */}}
{{- define "kafka-eos-exporter.alert-settings" -}}
{{- $root := .root -}}
{{- $defaults := .defaults -}}
{{- $given := $root.Values.prometheusRule.settings -}}
{{- range $key, $value := $given -}}
{{- if not (hasKey $defaults $key) -}}
{{- fail (printf "prometheusRule.settings.%s: no such setting; there are %s" $key (keys $defaults | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $default := get $defaults $key -}}
{{- if and (kindIs "string" $default) (not (kindIs "string" $value)) -}}
{{- fail (printf "prometheusRule.settings.%s: must be a text" $key) -}}
{{- else if and (kindIs "string" $default) (regexMatch "^([0-9]+[dhms])+$" $default) (not (regexMatch "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$" $value | and $value)) -}}
{{- fail (printf "prometheusRule.settings.%s: must be a duration like 90s, 5m or 1h30m, not %q" $key $value) -}}
{{- else if and (kindIs "float64" $default) (not (regexMatch "^[0-9]+(\\.[0-9]+)?(e[-+]?[0-9]+)?$" (toString $value))) -}}
{{- fail (printf "prometheusRule.settings.%s: must be a number, not %v" $key $value) -}}
{{- end -}}
{{- end -}}
{{- $service := printf "%s://%s.%s.svc:%d/runbooks" (ternary "https" "http" (include "kafka-eos-exporter.tls" $root | eq "true")) (include "kafka-eos-exporter.fullname" $root) (include "kafka-eos-exporter.namespace" $root) (int $root.Values.service.port) -}}
{{- $own := ternary (dict) (dict "runbook_url" $service) (eq $root.Values.mode "sidecar") -}}
{{- mergeOverwrite (deepCopy $defaults) $own (deepCopy $given) | toJson -}}
{{- end -}}

{{/* The seconds of a duration such as 1h30m. */}}
{{- define "kafka-eos-exporter.seconds" -}}
{{- $seconds := 0 -}}
{{- $units := dict "d" 86400 "h" 3600 "m" 60 "s" 1 -}}
{{- range regexFindAll "[0-9]+[dhms]" . -1 -}}
{{- $unit := trunc -1 . -}}
{{- $seconds = add $seconds (mul (trimSuffix $unit . | int64) (get $units $unit | int64)) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}

{{/* What a mark stands for: <<name>>, <<name.seconds>>, <<name:g>>, <<name*factor:g>>, <<name*factor:.0%>>. */}}
{{- define "kafka-eos-exporter.mark" -}}
{{- $parts := splitn ":" 2 (.mark | trimPrefix "<<" | trimSuffix ">>") -}}
{{- $format := default "" $parts._1 -}}
{{- $factors := splitn "*" 2 $parts._0 -}}
{{- $name := trimSuffix ".seconds" $factors._0 -}}
{{- if not (hasKey .settings $name) -}}{{- fail (printf "files/rules.yaml: what is %s?" .mark) -}}{{- end -}}
{{- $value := get .settings $name -}}
{{- with $factors._1 -}}
{{- $value = minf 1.0 (round (mulf (float64 .) (float64 $value)) 6) -}}
{{- end -}}
{{- if hasSuffix ".seconds" $factors._0 -}}
{{- include "kafka-eos-exporter.seconds" $value -}}
{{- else if eq $format "g" -}}
{{- printf "%g" (float64 $value) -}}
{{- else if eq $format ".0%" -}}
{{- printf "%.0f%%" (mulf 100.0 (float64 $value)) -}}
{{- else if $format -}}
{{- fail (printf "files/rules.yaml: how is %s written?" .mark) -}}
{{- else if kindIs "string" $value -}}
{{- $value -}}
{{- else -}}
{{- int64 $value -}}
{{- end -}}
{{- end -}}

{{/* A text with its marks filled. */}}
{{- define "kafka-eos-exporter.filled" -}}
{{- $text := .text -}}
{{- $settings := .settings -}}
{{- range regexFindAll "<<[^<>]+>>" $text -1 | uniq -}}
{{- $text = replace . (include "kafka-eos-exporter.mark" (dict "mark" . "settings" $settings)) $text -}}
{{- end -}}
{{- /* No sources are ignored: then the rule does not ask. */ -}}
{{- replace "{source!~\"\"}" "" $text -}}
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
{{- range $key, $text := default (dict) $rule.annotations -}}
{{- $_ := set $rule.annotations $key (include "kafka-eos-exporter.filled" (dict "text" $text "settings" $settings)) -}}
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
