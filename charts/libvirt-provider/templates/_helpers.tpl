{{- define "libvirt-provider.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Names of other objects add at most 9 characters to it. */}}
{{- define "libvirt-provider.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "libvirt-provider.name" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "libvirt-provider.name" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "libvirt-provider.selectorLabels" -}}
app.kubernetes.io/name: {{ include "libvirt-provider.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "libvirt-provider.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: bigfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "libvirt-provider.labels" -}}
{{ include "libvirt-provider.selectorLabels" . }}
{{ include "libvirt-provider.commonLabels" . }}
{{- end -}}

{{/* The pod that `helm test` starts: not one of ours to the service, and let in by the network policy. */}}
{{- define "libvirt-provider.testLabels" -}}
app.kubernetes.io/name: {{ include "libvirt-provider.name" . | trunc 58 }}-test
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "libvirt-provider.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "libvirt-provider.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "libvirt-provider.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "libvirt-provider.claim" -}}
{{- default (include "libvirt-provider.fullname" .) .Values.state.existingClaim -}}
{{- end -}}

{{- define "libvirt-provider.tlsSecret" -}}
{{- default (printf "%s-tls" (include "libvirt-provider.fullname" .)) .Values.tls.existingSecret -}}
{{- end -}}

{{/* The port of an address such as `:9000`. */}}
{{- define "libvirt-provider.port" -}}
{{- regexFind "[0-9]+$" . -}}
{{- end -}}

{{- define "libvirt-provider.grpcPort" -}}
{{- include "libvirt-provider.port" .Values.config.listen.addr -}}
{{- end -}}

{{- define "libvirt-provider.adminPort" -}}
{{- include "libvirt-provider.port" .Values.config.admin.addr -}}
{{- end -}}

{{/* Seconds of a duration such as `1m30s`. */}}
{{- define "libvirt-provider.seconds" -}}
{{- $total := 0.0 -}}
{{- range regexFindAll "[0-9.]+(h|ms|m|s|us|µs|ns)" (toString .) -1 -}}
{{- $unit := regexFind "[^0-9.]+$" . -}}
{{- $scale := get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) $unit | default 0.0 -}}
{{- $total = addf $total (mulf (trimSuffix $unit . | float64) $scale) -}}
{{- end -}}
{{- $total -}}
{{- end -}}

{{/*
Whether an object of the Prometheus operator is wanted here: a non-empty string if so.
Takes `on` (enabled, renderMode), `value` (its name) and `root`.
*/}}
{{- define "libvirt-provider.operator" -}}
{{- if .on.enabled -}}
{{- if or (eq .on.renderMode "always") (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1") -}}
yes
{{- else if eq .on.renderMode "fail" -}}
{{- fail (printf "\n\n%s.renderMode is `fail`, and the cluster does not have monitoring.coreos.com/v1: install the Prometheus operator's types, or set it to `skip` or `always`\n" .value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
