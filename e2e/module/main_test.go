package module

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// Where things are; set by TestMain.
var (
	root      string // of the repository
	envoyPath string
	// plainDir holds the library as it ships, faultDir one that can be told to
	// fail.
	plainDir, faultDir string
)

func TestMain(m *testing.M) {
	dir, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/module:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "e2e/module:", err)
		code = 1
	}
	if err := os.RemoveAll(dir); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "e2e/module:", err)
		code = 1
	}
	os.Exit(code)
}

// prepare finds Envoy and builds both libraries.
func prepare() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root = filepath.Dir(filepath.Dir(wd))
	if envoyPath = os.Getenv("ENVOY_PATH"); envoyPath == "" {
		envoyPath = filepath.Join(root, ".tools", "envoy")
	}
	if _, err := os.Stat(envoyPath); err != nil {
		return "", fmt.Errorf("no Envoy (set ENVOY_PATH, or install it with make): %w", err)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "", fmt.Errorf("install the package redis-server: %w", err)
	}
	dir, err := os.MkdirTemp("", "meshgate-module-")
	if err != nil {
		return "", err
	}
	plainDir, faultDir = filepath.Join(dir, "plain"), filepath.Join(dir, "fault")
	if err := build(plainDir); err != nil {
		return "", err
	}
	return dir, build(faultDir, "-tags", "faultinjection")
}

func build(dir string, flags ...string) error {
	args := append([]string{"build", "-buildmode=c-shared", "-ldflags", "-X=runtime.godebugDefault=cgocheck=0",
		"-o", filepath.Join(dir, "libmeshgate.so")}, flags...)
	cmd := exec.Command("go", append(args, "./filter/dynamicmodule")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the library: %w\n%s", err, out)
	}
	return nil
}
