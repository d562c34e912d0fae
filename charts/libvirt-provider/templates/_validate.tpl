{{/*
Refuses an installation that could not work. Everything that is wrong is said at once; each line names the value and
what to do.
*/}}
{{- define "libvirt-provider.validate" -}}
{{- $v := .Values -}}
{{- $problems := list -}}
{{- $hosts := $v.config.hosts | default list -}}
{{- $machine := $v.config.machine | default dict -}}

{{- range $key, $instead := dict "state" "use `state`" "connect" "write `config.hosts`" "backend" "use `mode`" -}}
{{- if hasKey $v.config $key -}}
{{- $problems = append $problems (printf "config.%s is set by the chart: leave it out, and %s" $key $instead) -}}
{{- end -}}
{{- end -}}
{{- if hasKey ($v.config.fake | default dict) "enabled" -}}
{{- $problems = append $problems "config.fake.enabled is set by the chart: leave it out, and use `mode`" -}}
{{- end -}}
{{- if $v.config.listen.tls -}}
{{- $problems = append $problems "config.listen.tls is set by the chart: leave it out, and use `tls`" -}}
{{- end -}}

{{- range $key := list "listen" "admin" -}}
{{- $addr := get (get $v.config $key) "addr" -}}
{{- if not (regexMatch "^(\\[::\\]|0\\.0\\.0\\.0)?:[1-9][0-9]*$" $addr) -}}
{{- $problems = append $problems (printf "config.%s.addr is `%s`: probes, the service and other pods need it on every interface, such as `:9000`" $key $addr) -}}
{{- end -}}
{{- end -}}
{{- if eq (include "libvirt-provider.grpcPort" .) (include "libvirt-provider.adminPort" .) -}}
{{- $problems = append $problems "config.listen.addr and config.admin.addr have the same port: choose two" -}}
{{- end -}}

{{- if eq $v.mode "fake" -}}
{{- if $hosts -}}
{{- $problems = append $problems "mode is `fake`, but config.hosts names hosts: remove them, or set mode to `libvirt`" -}}
{{- end -}}
{{- else -}}
{{- if not $hosts -}}
{{- $problems = append $problems "config.hosts is empty: name the libvirt hosts, such as --set config.hosts[0].uri=qemu+ssh://bigfleet@host-a/system; or look around without any by --set mode=fake" -}}
{{- end -}}
{{- if not $machine.image -}}
{{- $problems = append $problems "config.machine.image is empty: name the golden image, a volume of the hosts' storage pool" -}}
{{- end -}}
{{- if not $v.state.enabled -}}
{{- $problems = append $problems "state.enabled is false: after a restart the provider would not know what it has promised; only mode `fake` can do without state" -}}
{{- end -}}
{{- end -}}

{{- $unix := false -}}
{{- range $number, $host := $hosts -}}
{{- if not $host.uri -}}
{{- $problems = append $problems (printf "config.hosts[%d].uri is empty: say where the host is, such as qemu+ssh://bigfleet@host-a/system" $number) -}}
{{- else -}}
{{- $endpoint := include "libvirt-provider.endpoint" $host.uri | fromJson -}}
{{- $names := dict -}}
{{- range list "keyfile" "known_hosts" "pkipath" -}}
{{- $_ := set $names . (include "libvirt-provider.names" (list $endpoint.query .)) -}}
{{- end -}}
{{- if eq $endpoint.transport "ssh" -}}
{{- if not (or $v.credentials.ssh.existingSecret (and $names.keyfile $names.known_hosts)) -}}
{{- $problems = append $problems (printf "config.hosts[%d].uri goes by ssh, but credentials.ssh.existingSecret is empty: name a secret with the key and the known hosts" $number) -}}
{{- end -}}
{{- else if eq $endpoint.transport "tls" -}}
{{- if not (or $v.credentials.tls.existingSecret $names.pkipath) -}}
{{- $problems = append $problems (printf "config.hosts[%d].uri goes by TLS, but credentials.tls.existingSecret is empty: name a secret with a client certificate" $number) -}}
{{- end -}}
{{- else if eq $endpoint.transport "unix" -}}
{{- $unix = true -}}
{{- if not $v.hostSocket.enabled -}}
{{- $problems = append $problems (printf "config.hosts[%d].uri is a socket of the node, which a pod does not see: set hostSocket.enabled, or go by ssh or TLS" $number) -}}
{{- end -}}
{{- else -}}
{{- $problems = append $problems (printf "config.hosts[%d].uri has the transport `%s`: go by ssh or TLS" $number $endpoint.transport) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.hostSocket.enabled (not $unix) -}}
{{- $problems = append $problems "hostSocket.enabled is true, but no host is `qemu:///system`: leave it off" -}}
{{- end -}}

{{- if $v.tls.enabled -}}
{{- if and $v.tls.certManager.enabled $v.tls.existingSecret -}}
{{- $problems = append $problems "tls.existingSecret and tls.certManager.enabled exclude each other: the certificate comes from one place" -}}
{{- else if not (or $v.tls.certManager.enabled $v.tls.existingSecret) -}}
{{- $problems = append $problems "tls.enabled is true without a certificate: set tls.existingSecret or tls.certManager.enabled" -}}
{{- end -}}
{{- if and $v.tls.certManager.enabled (not $v.tls.certManager.issuerRef.name) -}}
{{- $problems = append $problems "tls.certManager.issuerRef.name is empty: name the issuer" -}}
{{- end -}}
{{- else if or $v.tls.certManager.enabled $v.tls.existingSecret $v.tls.clientAuthority -}}
{{- $problems = append $problems "tls has a certificate or an authority, but tls.enabled is false: gRPC would be plaintext; set it to true, or take them out" -}}
{{- end -}}

{{- if and $v.metrics.podMonitor.enabled $v.metrics.serviceMonitor.enabled -}}
{{- $problems = append $problems "metrics.podMonitor and metrics.serviceMonitor are both enabled: everything would be scraped twice; choose one" -}}
{{- end -}}

{{- $needed := addf (include "libvirt-provider.seconds" $v.config.shutdown.delay | float64) (include "libvirt-provider.seconds" $v.config.shutdown.grace | float64) -}}
{{- if ge $needed (float64 $v.pod.terminationGracePeriodSeconds) -}}
{{- $problems = append $problems (printf "pod.terminationGracePeriodSeconds is %v, but config.shutdown needs %v s (delay and grace): the pod would be killed in between; make it longer" $v.pod.terminationGracePeriodSeconds $needed) -}}
{{- end -}}

{{- if $problems -}}
{{- fail (printf "\n\nThis could not work:\n  - %s\n" (join "\n  - " $problems)) -}}
{{- end -}}
{{- end -}}
