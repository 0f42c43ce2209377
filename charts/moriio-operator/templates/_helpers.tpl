{{/* Name of the chart's objects. */}}
{{- define "moriio-operator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Kind of the roles of the operator and of the registrars: cluster-wide, or one per namespace. */}}
{{- define "moriio-operator.roleKind" -}}
{{- ternary "Role" "ClusterRole" (not (empty .Values.namespaces)) -}}
{{- end -}}

{{/* Name of the role that the operator binds to the registrars' ServiceAccounts. */}}
{{- define "moriio-operator.registrarRole" -}}
{{- include "moriio-operator.fullname" . }}-registrar
{{- end -}}

{{/* The image of the operator's pod and of the registrars in router pods. */}}
{{- define "moriio-operator.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the operator's pod. A Deployment's selector is immutable, so these must not change. */}}
{{- define "moriio-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Labels of every object. The chart's own take precedence over a user's, or selectors would miss their pod. */}}
{{- define "moriio-operator.labels" -}}
{{- $own := include "moriio-operator.selectorLabels" . | fromYaml -}}
{{- $version := .Chart.AppVersion | trunc 63 -}}
{{- $chart := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 -}}
{{- $about := dict "app.kubernetes.io/version" $version "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" $chart -}}
{{- toYaml (merge $own $about .Values.commonLabels) -}}
{{- end -}}

{{/* Labels of the objects of `helm test`: no selector of the operator's may match its pod. */}}
{{- define "moriio-operator.testLabels" -}}
{{- toYaml (merge (dict "app.kubernetes.io/component" "test") (include "moriio-operator.labels" . | fromYaml)) -}}
{{- end -}}

{{/* The security contexts of a pod and its container that the Pod Security Standard `restricted` requires. */}}
{{- define "moriio-operator.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- define "moriio-operator.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}

{{/* Scheduling and image pull settings of the chart's pods. */}}
{{- define "moriio-operator.placement" -}}
{{- $placement := dict -}}
{{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with get $.Values $key -}}
{{- $_ := set $placement $key . -}}
{{- end -}}
{{- end -}}
{{- with $placement -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* The operator's settings file: its keys are those of moriio_operator/runtime/settings.py. */}}
{{- define "moriio-operator.settings" -}}
{{- $settings := dict
      "namespaces" .Values.namespaces
      "registrarImage" (include "moriio-operator.image" .)
      "registrarRole" (dict
        "kind" (include "moriio-operator.roleKind" .)
        "name" (include "moriio-operator.registrarRole" .))
      "leaderElection" (dict
        "leaseNamespace" (.Release.Namespace)
        "leaseName" (include "moriio-operator.fullname" .)
        "leaseDurationSeconds" .Values.leaderElection.leaseDurationSeconds
        "renewDeadlineSeconds" .Values.leaderElection.renewDeadlineSeconds
        "retryPeriodSeconds" .Values.leaderElection.retryPeriodSeconds)
      "policy" (dict
        "privilegedNamespaces" .Values.policy.privilegedNamespaces
        "hostNetworkNamespaces" .Values.policy.hostNetworkNamespaces
        "hostPathPrefixes" .Values.policy.hostPathPrefixes
        "imagePrefixes" .Values.policy.imagePrefixes
        "maxGpus" .Values.policy.maxGpus)
      "ports" (dict
        "start" .Values.ports.start
        "end" .Values.ports.end)
      "workers" .Values.workers
      "resyncSeconds" .Values.resyncSeconds
      "logLevel" .Values.logLevel
      "httpPort" .Values.httpPort -}}
{{- toPrettyJson $settings -}}
{{- end -}}
