{{- define "touchstone.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "touchstone.fullname" -}}
{{- $name := include "touchstone.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "touchstone.selector" -}}
app.kubernetes.io/name: {{ include "touchstone.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "touchstone.labels" -}}
{{ include "touchstone.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "touchstone.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Labels of a part that is not the host: (list . "worker"). */}}
{{- define "touchstone.partSelector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "touchstone.name" $root }}-{{ index . 1 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end }}

{{- define "touchstone.partLabels" -}}
{{- $root := index . 0 -}}
{{ include "touchstone.partSelector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "touchstone.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* Secret with the NATS user of a part, and the variable and file of the user: (list . "worker"). */}}
{{- define "touchstone.natsUser" -}}
{{- $values := (index . 0).Values -}}
{{- if $values.nats.enabled -}}
{{- else if and (eq (index . 1) "worker") $values.workers.keys.existingSecret -}}
{{ $values.workers.keys.existingSecret }} NKEY $(POD_NAME).nk
{{- else if $values.cluster.key.existingSecret -}}
{{ $values.cluster.key.existingSecret }} NKEY {{ $values.cluster.key.secretKey }}
{{- else if $values.cluster.credentials.existingSecret -}}
{{ $values.cluster.credentials.existingSecret }} CREDENTIALS {{ $values.cluster.credentials.secretKey }}
{{- end }}
{{- end }}

{{/* The NATS servers of a part, host or worker; nothing without a cluster. */}}
{{- define "touchstone.clusterEnv" -}}
{{- $values := (index . 0).Values }}
{{- if $values.nats.enabled }}
{{- $name := printf "%s-nats" (include "touchstone.fullname" (index . 0)) }}
{{- $servers := list }}
{{- range until (int $values.nats.replicas) }}
{{- $servers = append $servers (printf "nats://%s-%d.%s:4222" $name . $name) }}
{{- end }}
- name: TOUCHSTONE_CLUSTER__NATS
  value: {{ join "," $servers | quote }}
- name: TOUCHSTONE_CLUSTER__INSECURE
  value: "true"
- name: TOUCHSTONE_CLUSTER__REPLICAS
  value: {{ $values.nats.replicas | quote }}
{{- else if $values.cluster.nats }}
- name: TOUCHSTONE_CLUSTER__NATS
  value: {{ $values.cluster.nats | quote }}
- name: TOUCHSTONE_CLUSTER__INSECURE
  value: {{ $values.cluster.insecure | quote }}
- name: TOUCHSTONE_CLUSTER__REPLICAS
  value: {{ $values.cluster.replicas | quote }}
{{- with include "touchstone.natsUser" . }}
{{- $user := splitList " " . }}
- name: TOUCHSTONE_CLUSTER__{{ index $user 1 }}_FILE
  value: /etc/touchstone-nats/{{ index $user 2 }}
{{- end }}
{{- if $values.cluster.ca.existingSecret }}
- name: TOUCHSTONE_CLUSTER__CA_FILE
  value: /etc/touchstone-nats-ca/{{ $values.cluster.ca.secretKey }}
{{- end }}
{{- end }}
{{- end }}

{{- define "touchstone.clusterMounts" -}}
{{- if include "touchstone.natsUser" . }}
- name: nats-user
  mountPath: /etc/touchstone-nats
  readOnly: true
{{- end }}
{{- if (index . 0).Values.cluster.ca.existingSecret }}
- name: nats-ca
  mountPath: /etc/touchstone-nats-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "touchstone.clusterVolumes" -}}
{{- with include "touchstone.natsUser" . }}
- name: nats-user
  secret:
    secretName: {{ splitList " " . | first }}
    defaultMode: 0440
{{- end }}
{{- if (index . 0).Values.cluster.ca.existingSecret }}
- name: nats-ca
  secret:
    secretName: {{ (index . 0).Values.cluster.ca.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{/* What the first container and the server have in common: both open the database. */}}
{{- define "touchstone.container" -}}
image: {{ include "touchstone.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - name: TOUCHSTONE_CONFIG
    value: /etc/touchstone/touchstone.toml
  - name: TOUCHSTONE_DATA
    value: /var/lib/touchstone
  - name: TOUCHSTONE_LISTEN
    value: 0.0.0.0:7800
  {{- if eq .Values.database.kind "postgresql" }}
  - name: TOUCHSTONE_DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.database.postgresql.existingSecret }}
        key: {{ .Values.database.postgresql.secretKey }}
  {{- end }}
  {{- if .Values.hostKeys.existingSecret }}
  - name: TOUCHSTONE_SECRETS__KEY_FILE
    value: /etc/touchstone-keys/secrets.pem
  - name: TOUCHSTONE_ATTEST__KEY_FILE
    value: /etc/touchstone-keys/attest.pem
  {{- end }}
  {{- include "touchstone.clusterEnv" (list . "host") | nindent 2 }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "touchstone.mounts" -}}
- name: data
  mountPath: /var/lib/touchstone
- name: tmp
  mountPath: /tmp
- name: config
  mountPath: /etc/touchstone
  readOnly: true
{{- if .Values.hostKeys.existingSecret }}
- name: host-keys
  mountPath: /etc/touchstone-keys
  readOnly: true
{{- end }}
{{- include "touchstone.clusterMounts" (list . "host") }}
{{- end }}

{{- define "touchstone.pod" -}}
metadata:
  labels:
    {{- include "touchstone.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration restarts the pods.
    checksum/config: {{ .Values.config | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "touchstone.fullname" . }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "touchstone.podSecurity" . | nindent 2 }}
  initContainers:
    - name: first-key
      {{- include "touchstone.container" . | nindent 6 }}
      args:
        - key
        - create
        - --tenant
        - {{ .Values.firstKey.tenant | quote }}
        {{- range .Values.firstKey.scopes }}
        - --scope
        - {{ . | quote }}
        {{- end }}
        - --from-file
        - /etc/touchstone-first-key/key
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        {{- include "touchstone.mounts" . | nindent 8 }}
        - name: first-key
          mountPath: /etc/touchstone-first-key
          readOnly: true
  containers:
    - name: touchstone
      {{- include "touchstone.container" . | nindent 6 }}
      args: [serve, --log-format, json]
      ports:
        - name: http
          containerPort: 7800
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 20
        timeoutSeconds: 5
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        {{- include "touchstone.mounts" . | nindent 8 }}
  volumes:
    {{- if eq .Values.database.kind "postgresql" }}
    - name: data
      emptyDir: {}
    {{- end }}
    - name: tmp
      emptyDir: {}
    - name: config
      configMap:
        name: {{ include "touchstone.fullname" . }}
    - name: first-key
      secret:
        secretName: {{ required "firstKey.existingSecret must name a Secret with the text of an API key; values.yaml says how" .Values.firstKey.existingSecret }}
        defaultMode: 0440
        items:
          - key: {{ .Values.firstKey.secretKey }}
            path: key
    {{- if .Values.hostKeys.existingSecret }}
    - name: host-keys
      secret:
        secretName: {{ .Values.hostKeys.existingSecret }}
        defaultMode: 0440
    {{- end }}
    {{- include "touchstone.clusterVolumes" (list . "host") | nindent 4 }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
