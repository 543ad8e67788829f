// Says what the Prometheus operator and the Spark operator would find wrong in objects of theirs: unknown fields, wrong
// types. JSON schemas of theirs are not to be had offline; their Go types are.
//
//	crds < objects.yaml        documents separated by ---; exit code 1 when one is refused
package main

import (
	"fmt"
	"io"
	"os"
	"regexp"

	spark "github.com/kubeflow/spark-operator/v2/api/v1beta2"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	routing "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	failed := false
	for _, document := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(text), -1) {
		var kind struct {
			Kind     string                `json:"kind"`
			Metadata struct{ Name string } `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			fmt.Println(err)
			failed = true
			continue
		}
		var object any
		switch kind.Kind {
		case "ServiceMonitor":
			object = &monitoring.ServiceMonitor{}
		case "PodMonitor":
			object = &monitoring.PodMonitor{}
		case "PrometheusRule":
			object = &monitoring.PrometheusRule{}
		case "AlertmanagerConfig":
			object = &routing.AlertmanagerConfig{}
		case "SparkApplication":
			object = &spark.SparkApplication{}
		default:
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			fmt.Printf("%s %s: %v\n", kind.Kind, kind.Metadata.Name, err)
			failed = true
			continue
		}
		fmt.Printf("%s %s is valid\n", kind.Kind, kind.Metadata.Name)
	}
	if failed {
		os.Exit(1)
	}
}
