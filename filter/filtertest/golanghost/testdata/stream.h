// The way of one request through Envoy's filter: what golang_filter.cc and processor_state.cc
// do with statuses, bodies and trailers. The client sends as fast as Envoy reads.
#ifndef STREAM_H
#define STREAM_H

#include "host.h"
#include "text.h"

static size_t size_of(const headers *h) {
  size_t bytes = 0;
  for (size_t i = 0; i < h->n; i++) bytes += h->of[i].name.n + h->of[i].value.n;
  return bytes;
}

// Tells the library that Envoy logs a request.
static void log_of(stream *s, uint64_t type) {
  atomic_store(&s->request.is_golang_processing_log, 1);
  on_log(&s->request, type, &s->state, &s->encoding, s->headers.n, size_of(&s->headers), 0, 0, 0, 0, 0, 0);
  atomic_store(&s->request.is_golang_processing_log, 0);
}

// What the library was shown and names by its address, or NULL.
static text *shown(stream *s, uint64_t buffer) {
  for (size_t i = 0; i < s->shown_n; i++)
    if ((uint64_t)(uintptr_t)s->shown[i] == buffer) return s->shown[i];
  return NULL;
}

static void drop_latest(stream *s) {
  text *t = s->shown[--s->shown_n];
  free(t->p);
  free(t);
}

// Has what the library keeps go on.
static void move_out(stream *s) {
  for (size_t i = 0; i < s->shown_n; i++) append(&s->out, s->shown[i]->p, s->shown[i]->n);
  while (s->shown_n > 0) drop_latest(s);
}

static void end_well(stream *s) {
  s->over = s->passed = 1;
  s->outcomes++;
}

// Envoy stops reading above the limit of the buffer, or answers where it waits for all.
static void buffer_data(stream *s, const text *data) {
  s->has_buffer = 1;
  append(&s->buffered, data->p, data->n);
  if (s->buffered.n <= BUFFER_LIMIT) return;
  if (s->state.state == WAITING_ALL_DATA) {
    s->over = s->replied = 1;
    s->outcomes++;
    s->reply.status = 413;
    s->reply.headers = calloc(1, sizeof(headers));
    return;
  }
  s->stopped = 1;
}

static text take_buffered(stream *s) {
  text t = s->buffered;
  s->buffered = (text){NULL, 0};
  s->stopped = 0;
  return t;
}

static void unexpected(stream *s, uint64_t status) {
  fprintf(stderr, "unexpected status %d in phase %d\n", (int)status, s->state.state);
  abort();
}

static int header_status(stream *s, uint64_t status) {
  switch (status) {
    case STATUS_RUNNING:
    case STATUS_LOCAL_REPLY: return 0;
    case STATUS_CONTINUE: s->state.state = s->do_end_stream ? DONE : WAITING_DATA; return 1;
    case STATUS_STOP_AND_BUFFER: s->state.state = WAITING_ALL_DATA; return 0;
    case STATUS_WATERMARK: s->state.state = WAITING_DATA; return 0;
  }
  unexpected(s, status);
  return 0;
}

static int data_status(stream *s, uint64_t status) {
  switch (status) {
    case STATUS_RUNNING:
    case STATUS_LOCAL_REPLY: return 0;
    case STATUS_CONTINUE: s->state.state = s->do_end_stream ? DONE : WAITING_DATA; break;
    case STATUS_STOP_AND_BUFFER: s->state.state = WAITING_ALL_DATA; break;
    case STATUS_WATERMARK: s->state.state = WAITING_DATA; break;
    case STATUS_NO_BUFFER:
      drop_latest(s);
      s->state.state = WAITING_DATA;
      break;
    default: unexpected(s, status);
  }
  if (status != STATUS_CONTINUE && s->do_end_stream) unexpected(s, status);
  if (s->trailers_arrived && s->buffered.n == 0) s->state.state = WAITING_TRAILER;
  return status == STATUS_CONTINUE;
}

static int trailer_status(stream *s, uint64_t status) {
  if (status == STATUS_RUNNING || status == STATUS_LOCAL_REPLY) return 0;
  if (status != STATUS_CONTINUE) unexpected(s, status);
  s->state.state = DONE;
  return 1;
}

static int data_go(stream *s, text data, int end) {
  s->state.state = PROCESSING_DATA;
  s->do_end_stream = end;
  if (s->shown_n == MAX_SHOWN) abort();
  text *t = malloc(sizeof(*t));
  *t = data;
  s->shown[s->shown_n++] = t;
  return data_status(s, on_data(&s->state, (uint64_t)end, (uint64_t)(uintptr_t)t, t->n));
}

static int trailer_go(stream *s) {
  s->state.state = PROCESSING_TRAILER;
  s->do_end_stream = 1;
  return trailer_status(s, on_header(&s->state, 1, s->trailers.n, size_of(&s->trailers)));
}

static void decode_headers(stream *s) {
  s->end_stream = s->do_end_stream = !s->has_body;
  s->state.state = PROCESSING_HEADER;
  if (header_status(s, on_header(&s->state, s->end_stream, s->headers.n, size_of(&s->headers))) && s->end_stream) end_well(s);
}

static void decode_data(stream *s, text data, int end) {
  s->end_stream = end;
  int done = 0;
  if (s->state.state == WAITING_ALL_DATA && end) {
    if (s->buffered.n > 0) {
      buffer_data(s, &data);
      free(data.p);
      if (s->over) return;
      data = take_buffered(s);
    }
    done = data_go(s, data, end);
  } else if (s->state.state == WAITING_DATA) {
    done = data_go(s, data, end);
  } else {
    buffer_data(s, &data);
    free(data.p);
  }
  if (!done) return;
  move_out(s);
  if (end) end_well(s);
}

// What Envoy injects into the filters behind.
static void inject(stream *s) {
  move_out(s);
  if (s->do_end_stream && !s->trailers_arrived) end_well(s);
}

// Trailers go on without what the library keeps, where they are decided at once.
static void decode_trailers(stream *s) {
  s->trailers_arrived = 1;
  int done = 0;
  switch (s->state.state) {
    case WAITING_TRAILER:
    case WAITING_DATA: done = trailer_go(s); break;
    case WAITING_ALL_DATA:
      if (s->buffered.n > 0) {
        data_go(s, take_buffered(s), 0);
        if (s->state.state != WAITING_TRAILER) break;
      }
      inject(s);
      done = trailer_go(s);
      break;
  }
  if (done) end_well(s);
}

// Continues a request whose filter was at work elsewhere.
static void go_on(stream *s, uint64_t status) {
  int phase = s->state.state, done = 0;
  switch (phase) {
    case PROCESSING_HEADER: done = header_status(s, status); break;
    case PROCESSING_DATA: done = data_status(s, status); break;
    case PROCESSING_TRAILER: done = trailer_status(s, status); break;
    default: unexpected(s, status);
  }
  if (done && phase == PROCESSING_HEADER && s->do_end_stream) end_well(s);
  if (done && phase != PROCESSING_HEADER) inject(s);
  if (done && phase == PROCESSING_TRAILER && !s->over) end_well(s);
  if (s->over) return;
  int all = s->end_stream || s->trailers_arrived;
  if ((s->state.state == WAITING_DATA && (s->buffered.n > 0 || s->end_stream)) || (s->state.state == WAITING_ALL_DATA && all)) {
    if (!s->has_buffer) abort(); // Envoy would read through a null pointer
    if (!data_go(s, take_buffered(s), s->end_stream)) return;
    inject(s);
  }
  if (!s->over && s->state.state == WAITING_TRAILER && s->trailers_arrived && trailer_go(s)) end_well(s);
}

// Shows the answer to the library, which has no use for it.
static void respond(stream *s) {
  text body = {"answer", 6};
  s->encoding.state = PROCESSING_HEADER;
  uint64_t status = on_header(&s->encoding, 0, 0, 0);
  if (status != STATUS_CONTINUE) unexpected(s, status);
  s->encoding.state = PROCESSING_DATA;
  status = on_data(&s->encoding, 1, (uint64_t)(uintptr_t)&body, body.n);
  if (status != STATUS_CONTINUE) unexpected(s, status);
  s->encoding.state = DONE;
}

// Has the client send what Envoy reads at once. False if there is nothing to send now.
static int arrive_once(stream *s) {
  if (!s->has_body || s->over || s->stopped || s->end_stream || s->trailers_arrived) return 0;
  size_t n = s->body.n - s->arrived;
  if (n > s->piece) n = s->piece;
  int last = s->arrived + n == s->body.n && !s->open;
  if (n == 0 && s->open) return 0;
  if (n > 0 || !s->has_trailers) {
    text piece = copy(s->body.p + s->arrived, n);
    s->arrived += n;
    decode_data(s, piece, last && !s->has_trailers);
  }
  if (last && s->has_trailers && !s->over && !s->stopped) decode_trailers(s);
  return 1;
}

// Has the client send all that Envoy reads.
static void arrive(stream *s) {
  while (arrive_once(s)) {
  }
}

#endif
