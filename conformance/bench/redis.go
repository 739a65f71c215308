package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordd/coordd/internal/load"
)

var redisClient = &client{locks: redisLocks, watch: redisWatch, list: redisList, idle: redisIdle, fill: redisFill}

func dialRedis(address string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, PoolSize: connections, ReadTimeout: 30 * time.Second,
		PoolTimeout: 30 * time.Second})
}

// redisIn returns a client that is closed with the turn.
func redisIn(t *turn, address string) *redis.Client {
	c := dialRedis(address)
	t.later(func() { _ = c.Close() })
	return c
}

func redisOnce(ctx context.Context, address string) error {
	c := dialRedis(address)
	defer c.Close()
	if err := c.Get(ctx, "once").Err(); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// unlock deletes a key if it has a value.
var unlock = redis.NewScript(
	`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

// redisSession locks by a key with a value of its own.
type redisSession struct {
	ctx    context.Context
	client *redis.Client
	value  string
}

// Acquire implements locker. A client that does not get the lock asks again after 1 to 5 ms.
func (s *redisSession) Acquire(name string, _ uint64) error {
	for {
		err := s.client.SetArgs(s.ctx, name, s.value, redis.SetArgs{Mode: "NX", TTL: busySession}).Err()
		if !errors.Is(err, redis.Nil) {
			return err
		}
		select {
		case <-time.After(time.Millisecond + rand.N(4*time.Millisecond)):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// Release implements locker.
func (s *redisSession) Release(name string) error {
	deleted, err := unlock.Run(s.ctx, s.client, []string{name}, s.value).Int()
	if err == nil && deleted != 1 {
		err = fmt.Errorf("release %s: not held", name)
	}
	return err
}

func redisLocks(t *turn, address string, _ bool, n int) ([]locker, error) {
	c := redisIn(t, address)
	all := make([]locker, n)
	for i := range all {
		all[i] = &redisSession{t, c, strconv.Itoa(i)}
	}
	return all, nil
}

func redisWatch(t *turn, address string, n int) (*watching, error) {
	c := redisIn(t, address)
	const channel = "watched"
	watchers := make([]*redis.PubSub, n)
	for i := range watchers {
		watchers[i] = c.Subscribe(t, channel)
		t.later(func() { _ = watchers[i].Close() })
	}
	return &watching{
			heard: func(i int) error { _, err := watchers[i].ReceiveMessage(t); return err },
			write: func() error { return c.Publish(t, channel, time.Now().String()).Err() },
		}, load.Together(watchers, func(_ int, w *redis.PubSub) error { // subscribed
			_, err := w.Receive(t)
			return err
		})
}

func redisList(t *turn, address string, members, _ int) (func(int) (int, error), error) {
	c := redisIn(t, address)
	const key = "group"
	for i := range members {
		if err := c.HSet(t, key, fmt.Sprintf("%06d", i), make([]byte, memberBytes)).Err(); err != nil {
			return nil, err
		}
	}
	return func(int) (int, error) {
		all, err := c.HGetAll(t, key).Result()
		return len(all), err
	}, nil
}

// redisIdle renews a key three times in its time to live, until the turn ends.
func redisIdle(t *turn, address string, n int, lost chan<- error) error {
	c := redisIn(t, address)
	keep := func(key string) error {
		ticker := time.NewTicker(idleSession / 3)
		defer ticker.Stop()
		for {
			select {
			case <-t.Done():
				return t.Err()
			case <-ticker.C:
			}
			if err := c.PExpire(t, key, idleSession).Err(); err != nil {
				return err
			}
		}
	}
	return spread(make([]struct{}, connections), n, func(_ struct{}, i int) error {
		key := fmt.Sprint("idle-", i)
		if err := c.Set(t, key, "", idleSession).Err(); err != nil {
			return err
		}
		go func() { lost <- keep(key) }()
		return nil
	})
}

// redisFill sets keys, 1,000 in a pipeline.
func redisFill(t *turn, address string, n int) error {
	c := redisIn(t, address)
	return inBatches(make([]struct{}, 1), n, 1000, func(_ struct{}, from, to int) error {
		_, err := c.Pipelined(t, func(p redis.Pipeliner) error {
			for i := from; i < to; i++ {
				p.Set(t, rowName(i), "", 0)
			}
			return nil
		})
		return err
	})
}
