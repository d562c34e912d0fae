{{/*
What a host's URI means, as JSON: transport (unix, ssh, tls, or as it is written), port, and the parameters it has.
*/}}
{{- define "libvirt-provider.endpoint" -}}
{{- $url := urlParse . -}}
{{- $named := regexFind "[+].*" $url.scheme | trimPrefix "+" -}}
{{- $transport := $named | default (ternary "tls" "unix" (ne $url.host "")) -}}
{{- if hasPrefix "libssh" $transport -}}{{- $transport = "ssh" -}}{{- end -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $usual := get (dict "ssh" "22" "tls" "16514") $transport -}}
{{- dict "transport" $transport "port" ($port | default $usual) "query" $url.query | toJson -}}
{{- end -}}

{{/* A host's URI with the files of the chart's secrets, where it names none of its own. */}}
{{- define "libvirt-provider.uri" -}}
{{- $endpoint := include "libvirt-provider.endpoint" .uri | fromJson -}}
{{- $files := dict -}}
{{- if eq $endpoint.transport "ssh" -}}
{{- $files = dict "keyfile" (printf "/etc/libvirt-provider/ssh/%s" .credentials.ssh.privateKey) "known_hosts" (printf "/etc/libvirt-provider/ssh/%s" .credentials.ssh.knownHosts) -}}
{{- else if eq $endpoint.transport "tls" -}}
{{- $files = dict "pkipath" "/etc/libvirt-provider/pki" -}}
{{- end -}}
{{- $uri := .uri -}}
{{- range $name, $file := $files -}}
{{- if not (include "libvirt-provider.names" (list $endpoint.query $name)) -}}
{{- $uri = printf "%s%s%s=%s" $uri (ternary "&" "?" (contains "?" $uri)) $name $file -}}
{{- end -}}
{{- end -}}
{{- $uri -}}
{{- end -}}

{{/* Whether a query has a parameter: a non-empty string if so. Takes query and name. */}}
{{- define "libvirt-provider.names" -}}
{{- regexFind (printf "(^|[&;])%s=" (index . 1)) (index . 0) -}}
{{- end -}}

{{/* The ports of all hosts, as a JSON list without doubles. */}}
{{- define "libvirt-provider.hostPorts" -}}
{{- $ports := list -}}
{{- range .Values.config.hosts -}}
{{- $endpoint := include "libvirt-provider.endpoint" .uri | fromJson -}}
{{- if $endpoint.port -}}{{- $ports = append $ports (int $endpoint.port) -}}{{- end -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* The configuration file: what the values say, and what is the chart's to say. */}}
{{- define "libvirt-provider.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if eq .Values.mode "fake" -}}
{{- $_ := set $config "fake" (merge (dict "enabled" true) ($config.fake | default dict)) -}}
{{- else -}}
{{- $_ := set $config "backend" "libvirt" -}}
{{- end -}}
{{- if .Values.state.enabled -}}
{{- $_ := set $config "state" "/var/lib/libvirt-provider/state.db" -}}
{{- end -}}
{{- if .Values.userData -}}
{{- $_ := set $config "machine" (merge (dict "user_data" "/etc/libvirt-provider/config/user-data") $config.machine) -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $tls := dict "cert" (printf "/etc/libvirt-provider/tls/%s" .Values.tls.certificate) "key" (printf "/etc/libvirt-provider/tls/%s" .Values.tls.privateKey) -}}
{{- with .Values.tls.clientAuthority -}}{{- $_ := set $tls "ca" (printf "/etc/libvirt-provider/tls/%s" .) -}}{{- end -}}
{{- $_ := set $config.listen "tls" $tls -}}
{{- end -}}
{{- if $config.hosts -}}
{{- $hosts := list -}}
{{- range $config.hosts -}}
{{- $uri := include "libvirt-provider.uri" (dict "uri" .uri "credentials" $.Values.credentials) -}}
{{- $hosts = append $hosts (merge (dict "uri" $uri) .) -}}
{{- end -}}
{{- $_ := set $config "hosts" $hosts -}}
{{- end -}}
{{- $config | toPrettyJson -}}
{{- end -}}
