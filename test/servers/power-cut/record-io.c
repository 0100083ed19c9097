/*
 * Loaded into a process (LD_PRELOAD), this records what it writes to some files and when it syncs them, in
 * order, to the file RECORD_TO. Recorded are the files whose path begins with RECORD_PREFIX, and the folder
 * that they are in. power-cut.test.ts makes of it what a power cut would leave.
 *
 * A record: kind, length of the suffix of the path, length of the data, offset; then suffix and data. A sync
 * has a record where it begins and one where it ends, with the number of the thread as its offset. The real
 * files are not synced; instead it takes a moment, as on a slow disk, so that much happens meanwhile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE = 'w', TRUNCATE = 't', SYNC_BEGIN = 'b', SYNC_END = 'e', UNLINK = 'u' };

struct header {
  uint32_t kind, suffix, data, padding;
  uint64_t offset;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;
static const char *prefix;
static char folder[4096];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
  prefix = getenv("RECORD_PREFIX");
  const char *to = getenv("RECORD_TO");
  if (!prefix || !to) return;
  snprintf(folder, sizeof folder, "%s", prefix);
  *strrchr(folder, '/') = 0;
  record = REAL(open)(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The part of a path after the prefix; "/" for the folder; NULL where it is not recorded. */
static const char *suffix_of(const char *path) {
  if (record < 0) return NULL;
  if (strcmp(path, folder) == 0) return "/";
  size_t length = strlen(prefix);
  return strncmp(path, prefix, length) == 0 ? path + length : NULL;
}

static const char *suffix_of_file(int fd, char *path, size_t size) {
  char link[64];
  if (record < 0 || fd == record) return NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return NULL;
  path[length] = 0;
  return suffix_of(path);
}

static void put(uint32_t kind, const char *suffix, uint64_t offset, const void *data, uint32_t size) {
  struct header header = {kind, (uint32_t)strlen(suffix), size, 0, offset};
  __typeof__(&write) real = REAL(write);
  if (real(record, &header, sizeof header) < 0 || real(record, suffix, header.suffix) < 0) abort();
  if (size > 0 && real(record, data, size) != (ssize_t)size) abort();
}

static ssize_t write_at(int fd, const void *data, size_t size, off64_t offset, int is_positioned) {
  char path[4096];
  const char *suffix = suffix_of_file(fd, path, sizeof path);
  if (!suffix) return is_positioned ? REAL(pwrite64)(fd, data, size, offset) : REAL(write)(fd, data, size);
  pthread_mutex_lock(&lock);
  if (!is_positioned) offset = lseek64(fd, 0, SEEK_CUR);
  ssize_t written = REAL(pwrite64)(fd, data, size, offset);
  if (written > 0) {
    if (!is_positioned) lseek64(fd, offset + written, SEEK_SET);
    put(WRITE, suffix, (uint64_t)offset, data, (uint32_t)written);
  }
  pthread_mutex_unlock(&lock);
  return written;
}

ssize_t write(int fd, const void *data, size_t size) { return write_at(fd, data, size, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return write_at(fd, data, size, offset, 1); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return write_at(fd, data, size, offset, 1); }

static int sync_file(int fd, int (*real)(int)) {
  char path[4096];
  const char *suffix = suffix_of_file(fd, path, sizeof path);
  if (!suffix) return real(fd);
  uint64_t thread = (uint64_t)gettid();
  pthread_mutex_lock(&lock);
  put(SYNC_BEGIN, suffix, thread, NULL, 0);
  pthread_mutex_unlock(&lock);
  usleep(500);
  pthread_mutex_lock(&lock);
  put(SYNC_END, suffix, thread, NULL, 0);
  pthread_mutex_unlock(&lock);
  return 0;
}

int fsync(int fd) { return sync_file(fd, REAL(fsync)); }
int fdatasync(int fd) { return sync_file(fd, REAL(fdatasync)); }

int ftruncate64(int fd, off64_t size) {
  char path[4096];
  const char *suffix = suffix_of_file(fd, path, sizeof path);
  if (!suffix) return REAL(ftruncate64)(fd, size);
  pthread_mutex_lock(&lock);
  int result = REAL(ftruncate64)(fd, size);
  if (result == 0) put(TRUNCATE, suffix, (uint64_t)size, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int unlink(const char *path) {
  const char *suffix = suffix_of(path);
  if (!suffix) return REAL(unlink)(path);
  pthread_mutex_lock(&lock);
  int result = REAL(unlink)(path);
  if (result == 0) put(UNLINK, suffix, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
