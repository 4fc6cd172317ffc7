// Workers: threads with a queue of what others want them to do. The first one is the thread
// that reads the script.
#ifndef WORKER_H
#define WORKER_H

#include <pthread.h>
#include <time.h>

#include "host.h"
#include "text.h"

typedef struct worker {
  pthread_mutex_t lock;
  pthread_cond_t more;
  event *first, **last;
  pthread_t thread;
  unsigned seed;
} worker;

static worker workers[WORKERS];
static long late_calls;

static void workers_begin(void) {
  for (int i = 0; i < WORKERS; i++) {
    pthread_mutex_init(&workers[i].lock, NULL);
    pthread_cond_init(&workers[i].more, NULL);
    workers[i].last = &workers[i].first;
  }
  workers[0].thread = pthread_self();
}

static event *event_of(stream *s, enum event_kind kind) {
  event *e = calloc(1, sizeof(*e));
  e->s = s;
  e->kind = kind;
  return e;
}

static void event_clear(event *e) {
  text of[] = {e->name, e->value, e->body, e->details};
  for (int i = 0; i < 4; i++) free(of[i].p);
  if (e->headers != NULL) headers_free(e->headers);
  free(e->headers);
}

static void event_free(event *e) {
  event_clear(e);
  free(e);
}

// An event of a stream that has been destroyed in between is dropped.
static void post(event *e) {
  worker *w = e->s->worker;
  pthread_mutex_lock(&w->lock);
  if (e->s->destroyed) {
    event_free(e);
  } else {
    e->next = NULL;
    *w->last = e;
    w->last = &e->next;
    pthread_cond_signal(&w->more);
  }
  pthread_mutex_unlock(&w->lock);
}

// Marks a stream as destroyed and drops what was to be done about it.
static void forget(stream *s) {
  worker *w = s->worker;
  pthread_mutex_lock(&w->lock);
  __atomic_store_n(&s->destroyed, 1, __ATOMIC_SEQ_CST);
  event **at = &w->first;
  while (*at != NULL)
    if ((*at)->s == s) {
      event *e = *at;
      *at = e->next;
      event_free(e);
    } else {
      at = &(*at)->next;
    }
  w->last = at;
  pthread_mutex_unlock(&w->lock);
}

// The next event, or NULL if there is none in time.
static event *take(worker *w, int seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += seconds;
  pthread_mutex_lock(&w->lock);
  while (w->first == NULL && seconds > 0 && pthread_cond_timedwait(&w->more, &w->lock, &until) == 0) {
  }
  event *e = w->first;
  if (e != NULL && (w->first = e->next) == NULL) w->last = &w->first;
  pthread_mutex_unlock(&w->lock);
  return e;
}

static int on_worker(const stream *s) { return pthread_equal(pthread_self(), s->worker->thread); }

#endif
