package deploy_test

import (
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// The fields that the chart may use of types that Kubernetes itself does not have.
type (
	certificate struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			SecretName string   `json:"secretName"`
			CommonName string   `json:"commonName"`
			DNSNames   []string `json:"dnsNames"`
			IsCA       bool     `json:"isCA"`
			Usages     []string `json:"usages"`
			Duration   string   `json:"duration"`
			PrivateKey struct {
				Algorithm, RotationPolicy string
				Size                      int
			} `json:"privateKey"`
			IssuerRef struct{ Kind, Name string } `json:"issuerRef"`
		} `json:"spec"`
	}
	issuer struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			SelfSigned *struct{} `json:"selfSigned"`
			CA         *struct {
				SecretName string `json:"secretName"`
			} `json:"ca"`
		} `json:"spec"`
	}
	serviceMonitor struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			Selector  meta.LabelSelector                      `json:"selector"`
			Endpoints []struct{ Port, Path, Interval string } `json:"endpoints"`
		} `json:"spec"`
	}
)

// objects are those that the chart renders, by their names where there may be several.
type objects struct {
	set          apps.StatefulSet
	account      core.ServiceAccount
	disruptions  policy.PodDisruptionBudget
	services     map[string]core.Service
	configs      map[string]core.ConfigMap
	policies     map[string]networking.NetworkPolicy
	certificates map[string]certificate
	issuers      map[string]issuer
	monitors     map[string]serviceMonitor
}

// into decodes a document strictly, and adds it to a map by its name.
func into[T any](all *map[string]T, name, document string) error {
	var one T
	err := yaml.UnmarshalStrict([]byte(document), &one)
	if *all == nil {
		*all = make(map[string]T)
	}
	(*all)[name] = one
	return err
}

// decode renders the chart and decodes all objects strictly: an unknown field is an error.
func decode(t *testing.T, settings ...string) *objects {
	t.Helper()
	text, err := template(loadChart(t), settings...)
	if err != nil {
		t.Fatal(err)
	}
	all := new(objects)
	for _, document := range strings.Split(text, "\n---\n") {
		var head struct {
			meta.TypeMeta `json:",inline"`
			Metadata      meta.ObjectMeta
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatal(err)
		}
		name := head.Metadata.Name
		if head.Metadata.Namespace != namespace {
			t.Errorf("%s %s has namespace %q", head.Kind, name, head.Metadata.Namespace)
		}
		switch head.APIVersion + " " + head.Kind {
		case "apps/v1 StatefulSet":
			err = yaml.UnmarshalStrict([]byte(document), &all.set)
		case "v1 ServiceAccount":
			err = yaml.UnmarshalStrict([]byte(document), &all.account)
		case "policy/v1 PodDisruptionBudget":
			err = yaml.UnmarshalStrict([]byte(document), &all.disruptions)
		case "v1 Service":
			err = into(&all.services, name, document)
		case "v1 ConfigMap":
			err = into(&all.configs, name, document)
		case "networking.k8s.io/v1 NetworkPolicy":
			err = into(&all.policies, name, document)
		case "cert-manager.io/v1 Certificate":
			err = into(&all.certificates, name, document)
		case "cert-manager.io/v1 Issuer":
			err = into(&all.issuers, name, document)
		case "monitoring.coreos.com/v1 ServiceMonitor":
			err = into(&all.monitors, name, document)
		default:
			t.Errorf("%s %s: of no known kind", head.APIVersion, head.Kind)
		}
		if err != nil {
			t.Errorf("%s %s: %v", head.Kind, name, err)
		}
	}
	return all
}

// TestObjects wants the objects to be well-formed, and to fit together, for every choice that the values have.
func TestObjects(t *testing.T) {
	for name, settings := range map[string][]string{
		"as it is":       nil,
		"secrets":        {"certificates=secrets"},
		"plain":          {"clients.tls=false", "clients.auth=false"},
		"secrets, plain": {"certificates=secrets", "clients.tls=false"},
		"monitored":      {"serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus"},
		"guarded": {"networkPolicy.clients[0].podSelector.matchLabels.app=web",
			"networkPolicy.monitoring[0].namespaceSelector.matchLabels.name=monitoring"},
		"scheduled": {"antiAffinity=preferred", "nodeSelector.disk=ssd", "tolerations[0].operator=Exists",
			"storage.className=fast", "image.pullSecrets={registry}", "settings.COORDD_LOG_FORMAT=json"},
		"joining": {"join=coordd-1"},
	} {
		t.Run(name, func(t *testing.T) {
			all := decode(t, settings...)
			checkPods(t, all)
			checkServices(t, all)
			checkCertificates(t, all, settings)
		})
	}
}

// checkPods checks what the servers may do, and how they are started, asked and ended.
func checkPods(t *testing.T, all *objects) {
	t.Helper()
	set, pod := all.set.Spec, all.set.Spec.Template.Spec
	c := pod.Containers[0]
	no := func(value *bool) bool { return value != nil && !*value }
	if *set.Replicas != 3 || set.PodManagementPolicy != apps.ParallelPodManagement ||
		all.disruptions.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%d servers, %s, disruptions %v", *set.Replicas, set.PodManagementPolicy, all.disruptions.Spec)
	}
	if p := pod.SecurityContext; !*p.RunAsNonRoot || *p.RunAsUser == 0 || *p.FSGroup != *p.RunAsGroup ||
		p.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context is %+v", p)
	}
	if s := c.SecurityContext; !no(s.AllowPrivilegeEscalation) || !*s.ReadOnlyRootFilesystem || s.Privileged != nil ||
		!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("the container's security context is %+v", s)
	}
	if !no(pod.AutomountServiceAccountToken) || !no(all.account.AutomountServiceAccountToken) ||
		pod.ServiceAccountName != all.account.Name || !no(pod.EnableServiceLinks) {
		t.Errorf("the account is %+v, of %q", all.account, pod.ServiceAccountName)
	}
	if *pod.TerminationGracePeriodSeconds < 10 {
		t.Errorf("a server has %d s to end", *pod.TerminationGracePeriodSeconds)
	}
	for path, probes := range map[string][]*core.Probe{"/healthz": {c.StartupProbe, c.LivenessProbe},
		"/readyz": {c.ReadinessProbe}} {
		for _, probe := range probes {
			if probe.HTTPGet.Path != path || probe.HTTPGet.Port != intstr.FromString("http") {
				t.Errorf("a probe asks for %v, want %s", probe.HTTPGet, path)
			}
		}
	}
	if l := c.LivenessProbe; l.PeriodSeconds*l.FailureThreshold < 30 {
		t.Errorf("the liveness probe waits %d times %d s", l.FailureThreshold, l.PeriodSeconds)
	}
	volumes := map[string]bool{set.VolumeClaimTemplates[0].Name: true}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
	}
	for _, mount := range c.VolumeMounts {
		if !volumes[mount.Name] {
			t.Errorf("no volume %s", mount.Name)
		}
		delete(volumes, mount.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes that are not mounted: %v", keys(volumes))
	}
}

// checkServices checks that the ports are those of the container, and who gets to them.
func checkServices(t *testing.T, all *objects) {
	t.Helper()
	set := all.set.Spec
	ports := make(map[string]int32)
	for _, port := range set.Template.Spec.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	selects := func(what string, selector map[string]string) {
		t.Helper()
		for key, value := range selector {
			if set.Template.Labels[key] != value {
				t.Errorf("%s selects %s=%s, which the pods are not", what, key, value)
			}
		}
	}
	selects("the set", set.Selector.MatchLabels)
	selects("the budget", all.disruptions.Spec.Selector.MatchLabels)
	for name, service := range all.services {
		selects(name, service.Spec.Selector)
		headless := name == set.ServiceName
		if service.Spec.PublishNotReadyAddresses != headless ||
			(service.Spec.ClusterIP == core.ClusterIPNone) != headless {
			t.Errorf("service %s is %+v", name, service.Spec)
		}
		for _, port := range service.Spec.Ports {
			if ports[port.TargetPort.String()] != port.Port {
				t.Errorf("service %s has port %d, the container %d", name, port.Port, ports[port.TargetPort.String()])
			}
		}
	}
	if len(all.services) != 2 || len(all.policies) != 1 {
		t.Errorf("%d services, %d policies", len(all.services), len(all.policies))
	}
	for _, policy := range all.policies {
		for _, rule := range policy.Spec.Ingress {
			port := rule.Ports[0].Port.String()
			if ports[port] == 0 || len(rule.Ports) != 1 {
				t.Errorf("the policy has a rule for the ports %v", rule.Ports)
			}
			if port == "peer" {
				selects("the peers' rule", rule.From[0].PodSelector.MatchLabels)
			}
			if port == "peer" && (len(rule.From) != 1 || rule.From[0].NamespaceSelector != nil) {
				t.Errorf("port 2380 is open to %v", rule.From)
			}
		}
		selects("the policy", policy.Spec.PodSelector.MatchLabels)
	}
	for _, monitor := range all.monitors {
		peer := all.services[set.ServiceName]
		for key, value := range monitor.Spec.Selector.MatchLabels {
			if peer.Labels[key] != value {
				t.Errorf("the monitor selects %s=%s", key, value)
			}
		}
		if !slices.ContainsFunc(peer.Spec.Ports, func(p core.ServicePort) bool {
			return p.Name == monitor.Spec.Endpoints[0].Port
		}) {
			t.Errorf("no port of %+v", monitor.Spec.Endpoints)
		}
	}
}

// checkCertificates checks that what the pods mount is made, or asked for.
func checkCertificates(t *testing.T, all *objects, settings []string) {
	t.Helper()
	made := make(map[string]bool)
	for _, c := range all.certificates {
		made[c.Spec.SecretName] = true
		if _, found := all.issuers[c.Spec.IssuerRef.Name]; !found {
			t.Errorf("certificate %s is of %v, which is not there", c.Name, c.Spec.IssuerRef)
		}
	}
	for _, volume := range all.set.Spec.Template.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if given := slices.Contains(settings, "certificates=secrets"); made[source.Secret.Name] == given {
				t.Errorf("secret %s: made %v, given %v", source.Secret.Name, made[source.Secret.Name], given)
			}
			delete(made, source.Secret.Name)
		}
	}
	if delete(made, "coordd-ca"); len(made) > 0 {
		t.Errorf("certificates that no server uses: %v", keys(made))
	}
}
