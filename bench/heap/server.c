/* A server of many threads, for apps.sh: prints how many requests it has answered.
 *
 * 64 connections come one after another, 16 at a time, each with a thread of its own. A request is a
 * line of JSON; its thread makes a tree of it, looks the session up in a table that all share, puts a
 * new value there now and then, and builds an answer that grows. A logger's thread frees what the
 * others have written for it. Random numbers come from fixed seeds. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS = 64, AT_A_TIME = 16, REQUESTS = 4000, SESSIONS = 40000, LOCKS = 64 };

typedef struct { uint64_t state; } Random;
static uint32_t next(Random *random) {
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return random->state >> 33;
}

/* A value of JSON: a text, or a list of values with their names. */
typedef struct Value {
    struct Value *next, *first;
    char *name, *text;
} Value;

static char *copy(const char *start, size_t length) {
    char *text = malloc(length + 1);
    memcpy(text, start, length);
    text[length] = 0;
    return text;
}

static void drop(Value *value) {
    while (value) {
        Value *next = value->next;
        drop(value->first);
        free(value->name);
        free(value->text);
        free(value);
        value = next;
    }
}

/* Reads `{name:value,…}`, where a value is a word or such a list. */
static Value *parse(const char **at) {
    Value *first = NULL, **last = &first;
    for (++*at; **at != '}';) {
        Value *value = calloc(1, sizeof *value);
        size_t length = strcspn(*at, ":");
        value->name = copy(*at, length);
        *at += length + 1;
        if (**at == '{') {
            value->first = parse(at);
        } else {
            length = strcspn(*at, ",}");
            value->text = copy(*at, length);
            *at += length;
        }
        *last = value, last = &value->next;
        if (**at == ',') ++*at;
    }
    ++*at;
    return first;
}

typedef struct { char *text; size_t length, room; } Text;
static void append(Text *text, const char *more) {
    size_t length = strlen(more);
    if (text->length + length + 1 > text->room) {
        text->room = 2 * (text->length + length + 1);
        text->text = realloc(text->text, text->room);
    }
    memcpy(text->text + text->length, more, length + 1);
    text->length += length;
}
static void print(Text *text, const Value *value) {
    append(text, "{");
    for (; value; value = value->next) {
        append(text, value->name);
        append(text, ":");
        if (value->first) print(text, value->first);
        else append(text, value->text ? value->text : "{}");
        if (value->next) append(text, ",");
    }
    append(text, "}");
}

static Value *sessions[SESSIONS];
static pthread_mutex_t locks[LOCKS];

/* What the logger has to free. */
typedef struct Note { struct Note *next; char *text; } Note;
static Note *notes;
static int logging = 1;
static size_t answered, logged;
static pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t notes_come = PTHREAD_COND_INITIALIZER;

static void *logger(void *unused) {
    (void)unused;
    pthread_mutex_lock(&notes_lock);
    while (logging || notes) {
        Note *taken = notes;
        notes = NULL;
        if (!taken) {
            pthread_cond_wait(&notes_come, &notes_lock);
            continue;
        }
        pthread_mutex_unlock(&notes_lock);
        while (taken) {
            Note *next = taken->next;
            logged += strlen(taken->text);
            free(taken->text);
            free(taken);
            taken = next;
        }
        pthread_mutex_lock(&notes_lock);
    }
    pthread_mutex_unlock(&notes_lock);
    return NULL;
}

static void answer(Random *random) {
    Text request = {0};
    char part[64];
    append(&request, "{");
    for (unsigned i = 0, fields = 3 + next(random) % 20; i < fields; i++) {
        snprintf(part, sizeof part, "%sfield%u:{kind:%u,text:%.*s}", i ? "," : "", i, next(random) % 100,
                 (int)(1 + next(random) % 24), "abcdefghijklmnopqrstuvwxyz");
        append(&request, part);
    }
    append(&request, "}");
    const char *at = request.text;
    Value *tree = parse(&at);
    unsigned session = next(random) % SESSIONS;
    pthread_mutex_t *lock = &locks[session % LOCKS];
    Text reply = {0};
    pthread_mutex_lock(lock);
    print(&reply, sessions[session]);
    if (!sessions[session] || next(random) % 4 == 0) {
        Value *old = sessions[session];
        sessions[session] = tree;
        tree = old;
    }
    pthread_mutex_unlock(lock);
    print(&reply, tree);
    drop(tree);
    free(request.text);
    Note *note = malloc(sizeof *note);
    note->text = reply.text;
    pthread_mutex_lock(&notes_lock);
    note->next = notes, notes = note;
    answered++;
    pthread_cond_signal(&notes_come);
    pthread_mutex_unlock(&notes_lock);
}

static void *connection(void *number) {
    Random random = {(uintptr_t)number};
    for (int i = 0; i < REQUESTS; i++) answer(&random);
    return NULL;
}

int main(void) {
    for (int i = 0; i < LOCKS; i++) pthread_mutex_init(&locks[i], NULL);
    pthread_t threads[AT_A_TIME], log;
    pthread_create(&log, NULL, logger, NULL);
    for (uintptr_t i = 0; i < CONNECTIONS + AT_A_TIME; i++) {
        if (i >= AT_A_TIME) pthread_join(threads[i % AT_A_TIME], NULL);
        if (i < CONNECTIONS) pthread_create(&threads[i % AT_A_TIME], NULL, connection, (void *)i);
    }
    pthread_mutex_lock(&notes_lock);
    logging = 0;
    pthread_cond_signal(&notes_come);
    pthread_mutex_unlock(&notes_lock);
    pthread_join(log, NULL);
    printf("%zu requests, %zu bytes\n", answered, logged);
    return answered == (size_t)CONNECTIONS * REQUESTS ? 0 : 1;
}
