package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/klinkio/klink"
	sdk "github.com/klinkio/klink/sdk/go"
)

// A device that prints what is pushed to room:1.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := sdk.Dial(ctx, sdk.Config{
		Endpoints: []string{"tls://push.example.com:7443", "wss://push.example.com:7443/connect"},
		Tags:      []string{"room:1"},
		Token: func(ctx context.Context, reason sdk.TokenReason) (string, error) {
			return fetchToken(ctx) // from the app's own back end
		},
		Store: sdk.NewFileStore(filepath.Join(os.TempDir(), "klink-install.json")),
		Handler: &sdk.Callbacks{
			Push: func(p *sdk.Push) { fmt.Printf("%s: %s\n", p.Tag, p.Payload.Data) },
			Gap:  func(g *sdk.Gap) { fmt.Println("pushes are missing:", g.Reason) },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	<-client.Done()
}

func fetchToken(context.Context) (string, error) { return "", sdk.ErrSignedOut }

// New and Run are for a program that manages its goroutines itself and does not wait for the first connection.
func ExampleNew() {
	client, err := sdk.New(sdk.Config{
		Endpoints: []string{"tls://push.example.com:7443"},
		Token:     func(context.Context, sdk.TokenReason) (string, error) { return "", sdk.ErrSignedOut },
		Handler:   &sdk.Callbacks{Status: func(s *sdk.Status) { fmt.Println(s.State) }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = client.Run(context.Background())
	fmt.Println(errors.Is(err, sdk.ErrSignedOut))
	// Output:
	// closed
	// true
}

func ExampleClient_Subscribe() {
	var client *sdk.Client // from Dial
	sub, err := client.Subscribe(context.Background(), "room:1", "room:2")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range sub.Tags {
		if t.Code != klink.OK {
			fmt.Println(t.Tag, "is refused:", t.Text)
		}
	}
}

func ExampleClient_Unsubscribe() {
	var client *sdk.Client // from Dial
	if _, err := client.Unsubscribe(context.Background(), "room:1"); err != nil {
		fmt.Println(err)
	}
}

func ExampleClient_Publish() {
	var client *sdk.Client // from Dial
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got, err := client.Publish(ctx, sdk.Publication{
		Tag:            "room:1",
		Payload:        klink.Payload{Kind: klink.DataJSON, Data: []byte(`{"hi":1}`)},
		IdempotencyKey: "message 17", // may be repeated after an error
	})
	if e, ok := errors.AsType[*klink.Error](err); ok && e.Code.Temporary() {
		fmt.Println("try again later:", e)
		return
	}
	fmt.Println("on its way to", got.Enqueued, "of", got.Matched)
}

func ExampleClient_Request() {
	var client *sdk.Client // from Dial
	answer, err := client.Request(context.Background(), sdk.Call{
		Service: "echo", Payload: klink.Payload{Kind: klink.DataText, Data: []byte("hello")}, Timeout: 5 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(answer.Data))
}

func ExampleClient_SetHeartbeat() {
	var client *sdk.Client // from Dial
	client.SetHeartbeat(5 * time.Minute)
	client.SetBackground(true)
}

// The device id and the count of attempts survive a restart of the program.
func ExampleNewFileStore() {
	dir, err := os.MkdirTemp("", "klink")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "install.json")
	if err := sdk.NewFileStore(path).Save(sdk.Install{Device: "phone", Attempt: 7}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sdk.NewFileStore(path).Load())
	// Output: {phone 7} <nil>
}
