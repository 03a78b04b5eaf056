// Manages volumes with the client that oapi-codegen made: generators URL TOKEN.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"generators/plimsoll"
)

const (
	gib  = int64(1) << 30
	name = "from-go"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url, token string) error {
	ctx := context.Background()
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	client, err := plimsoll.NewClientWithResponses(url, plimsoll.WithRequestEditorFn(authorize))
	if err != nil {
		return err
	}

	level := plimsoll.LevelName("plimsoll/unlimited")
	pool, err := client.CreatePoolWithResponse(ctx, plimsoll.NewPool{Name: name, Level: level, SizeBytes: 4 * gib})
	if err != nil || pool.JSON201 == nil {
		return fmt.Errorf("create the pool: %w, %s", err, pool.Body)
	}

	rules := []plimsoll.Rule{{Clients: []string{"127.0.0.1"}}}
	new := plimsoll.NewVolume{Name: name, Pool: name, SizeBytes: gib, Rules: &rules}
	created, err := client.CreateVolumeWithResponse(ctx, nil, new)
	if err != nil || created.JSON201 == nil {
		return fmt.Errorf("create the volume: %w, %s", err, created.Body)
	}
	volume := created.JSON201
	if volume.SizeBytes != gib || volume.Rules[0].Clients[0] != "127.0.0.1" {
		return fmt.Errorf("another volume was created: %s", created.Body)
	}

	limit := int64(1000)
	listed, err := client.ListVolumesWithResponse(ctx, &plimsoll.ListVolumesParams{Limit: &limit})
	if err != nil || listed.JSON200 == nil {
		return fmt.Errorf("list the volumes: %w, %s", err, listed.Body)
	}
	found := false
	for _, one := range listed.JSON200.Items {
		found = found || one.Id == volume.Id && one.Version == volume.Version
	}
	if !found {
		return fmt.Errorf("the list lacks the volume: %s", listed.Body)
	}

	if err := change(ctx, client, volume); err != nil {
		return err
	}
	deleted, err := client.DeleteVolumeWithResponse(ctx, name, nil)
	if err != nil || deleted.JSON200 == nil || deleted.JSON200.Outcome != "succeeded" {
		return fmt.Errorf("delete the volume: %w, %s", err, deleted.Body)
	}
	emptied, err := client.DeletePoolWithResponse(ctx, name, nil)
	if err != nil || emptied.JSON200 == nil {
		return fmt.Errorf("delete the pool: %w, %s", err, emptied.Body)
	}
	return nil
}

// change enlarges the volume, and expects the refusal of a stale change and of a full pool.
func change(ctx context.Context, client *plimsoll.ClientWithResponses, volume *plimsoll.Volume) error {
	tag, size := fmt.Sprintf("%q", volume.Version), 2*gib
	params := plimsoll.ChangeVolumeParams{IfMatch: &tag}
	changed, err := client.ChangeVolumeWithResponse(ctx, name, &params, plimsoll.VolumePatch{SizeBytes: &size})
	if err != nil || changed.JSON200 == nil || changed.JSON200.SizeBytes != size {
		return fmt.Errorf("change the volume: %w, %s", err, changed.Body)
	}

	stale, err := client.ChangeVolumeWithResponse(ctx, name, &params, plimsoll.VolumePatch{SizeBytes: &size})
	if err != nil {
		return err
	}
	problem := stale.ApplicationproblemJSON412
	if problem == nil || problem.Type != "urn:plimsoll:problem:version" {
		return fmt.Errorf("a stale change was not refused with its problem: %s %s", stale.Status(), stale.Body)
	}

	second := plimsoll.NewVolume{Name: "second", Pool: name, SizeBytes: 3 * gib}
	full, err := client.CreateVolumeWithResponse(ctx, nil, second)
	if err != nil {
		return err
	}
	problem = full.ApplicationproblemJSON409
	if problem == nil || problem.Forceable == nil || !*problem.Forceable {
		return fmt.Errorf("an overbooked pool is no forceable problem: %s %s", full.Status(), full.Body)
	}
	return nil
}
