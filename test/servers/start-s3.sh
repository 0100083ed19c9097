#!/usr/bin/env bash
# A real S3-compatible object store for tests: Ceph's radosgw over one mon and
# one OSD, all on 127.0.0.1, all files in one folder. For Debian 12 with the
# packages ceph-mon, ceph-osd and radosgw.
#
#   start-s3.sh FOLDER PORT   start it and print its settings when it is ready
#                             (one that was stopped there goes on with its data)
#   start-s3.sh gateway FOLDER
#                             start radosgw alone, after somebody killed it
#   start-s3.sh stop FOLDER   stop it; FOLDER stays, to look at or to delete
#
# PORT is the endpoint; the next nine ports are used inside. Settings are
# printed as NAME=value lines and kept in FOLDER/s3.env; set S3_BUCKET,
# S3_ACCESS_KEY or S3_SECRET_KEY beforehand to choose them, S3_STORE=memstore to
# keep the objects in memory, not in FOLDER (gone when it stops).
set -euo pipefail

unset CEPH_ARGS CEPH_CONF
say() { printf 's3: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# The pid of daemon $1 while it runs; its command line must name our folder.
running() {
  local pid
  pid=$(cat "$F/run/$1.pid" 2>/dev/null) && [ -n "$pid" ] &&
    tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$F/ceph.conf" && echo "$pid"
}

# radosgw keeps nothing and can be slow to go; the others write what they hold.
stop_all() {
  local name pid i limit
  for name in rgw osd mon; do
    pid=$(running $name) || { rm -f "$F/run/$name.pid"; continue; }
    limit=300; [ $name = rgw ] && limit=20
    kill "$pid" 2>/dev/null || true
    for ((i = 0; i < limit; i++)); do running $name >/dev/null || break; sleep 0.05; done
    if running $name >/dev/null; then kill -9 "$pid" 2>/dev/null || true; fi
    rm -f "$F/run/$name.pid"
  done
}

# watched SECONDS COMMAND...: runs it, for as long as the daemons started live.
watched() {
  local limit=$1 job name; shift
  timeout "$limit" "$@" >>"$F/log/mkfs.out" 2>&1 </dev/null &
  job=$!
  while kill -0 $job 2>/dev/null; do
    for name in mon osd rgw; do
      if [ -e "$F/run/$name.pid" ] && ! running $name >/dev/null; then
        kill $job 2>/dev/null; say "$name has ended"; return 1
      fi
    done
    sleep 0.05
  done
  wait $job
}

# launch NAME COMMAND...: in the background, in its own session.
launch() {
  local name=$1; shift
  setsid "$@" -f -c "$F/ceph.conf" </dev/null >>"$F/log/$name.out" 2>&1 &
  local pid=$! i
  echo "$pid" >"$F/run/$name.pid"
  for i in {1..250}; do    # until it is that program, no longer our own fork
    if running "$name" >/dev/null || ! kill -0 "$pid" 2>/dev/null; then break; fi
    sleep 0.02
  done
}

write_conf() {
  cat >"$F/ceph.conf" <<C
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = v1:127.0.0.1:$((PORT + 1))
ms bind msgr2 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind port min = $((PORT + 2))
ms bind port max = $((PORT + 9))
auth cluster required = none
auth service required = none
auth client required = none
run dir = $F/run
crash dir = $F/log
admin socket =
pid file =
log file = $F/log/\$name.log
debug rocksdb = 0/0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
[mon]
mon data = $F/mon
mon cluster log file = $F/log/cluster.log
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 0
mon data avail warn = 0
paxos propose interval = 0.05
paxos min wait = 0.01
[osd]
osd data = $F/osd
osd objectstore = $STORE
memstore device bytes = 4294967296
bluestore block size = 10737418240
bluestore cache autotune = false
bluestore cache size = 67108864
osd op thread timeout = 120
osd op thread suicide timeout = 600
[client.rgw]
rgw data = $F/rgw
rgw frontends = beast endpoint=127.0.0.1:$PORT tcp_nodelay=1
rgw enable apis = s3
rgw thread pool size = 64
rgw dynamic resharding = false
rgw gc obj min wait = 60
rgw gc processor period = 60
rgw gc processor max time = 60
C
}

# Makes the bucket and does one put, one multipart upload and their removal, so
# that the pools which radosgw makes at first use are there before a test runs.
prepare_bucket() {
  cat >"$F/run/prepare.py" <<'PY'
import datetime, hashlib, hmac, http.client, re, sys, time
port, bucket, access, secret = sys.argv[1:]
host = '127.0.0.1:' + port
def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
def request(method, path, query='', body=b''):
    now = datetime.datetime.utcnow().strftime('%Y%m%dT%H%M%SZ')
    day, digest = now[:8], hashlib.sha256(body).hexdigest()
    names = 'host;x-amz-content-sha256;x-amz-date'
    canonical = '\n'.join([method, path, query, 'host:' + host, 'x-amz-content-sha256:' + digest,
                           'x-amz-date:' + now, '', names, digest])
    scope = day + '/us-east-1/s3/aws4_request'
    text = '\n'.join(['AWS4-HMAC-SHA256', now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = mac(mac(mac(mac(('AWS4' + secret).encode(), day), 'us-east-1'), 's3'), 'aws4_request')
    auth = 'AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s' % (
        access, scope, names, mac(key, text).hex())
    c = http.client.HTTPConnection('127.0.0.1', int(port), timeout=20)
    c.request(method, path + ('?' + query if query else ''), body, {
        'x-amz-date': now, 'x-amz-content-sha256': digest, 'Authorization': auth})
    r = c.getresponse()
    text = r.read().decode()
    if r.status >= 300:
        raise OSError('%s %s: %d %s' % (method, path, r.status, text))
    return text
until = time.time() + 40
while True:
    try:
        request('PUT', '/' + bucket)
        key = '/' + bucket + '/.warm-up'
        request('PUT', key, '', b'x')
        upload = re.search('<UploadId>([^<]+)', request('POST', key, 'uploads='))[1]
        request('PUT', key, 'partNumber=1&uploadId=' + upload, b'x')
        request('DELETE', key, 'uploadId=' + upload)
        request('DELETE', key)
        break
    except (OSError, http.client.HTTPException) as e:
        if time.time() > until:
            sys.exit('not ready: %s' % e)
        time.sleep(0.1)
PY
  watched 60 python3 "$F/run/prepare.py" "$PORT" "$S3_BUCKET" "$S3_ACCESS_KEY" "$S3_SECRET_KEY"
}

failed() {
  local log
  for log in "$F"/log/*; do [ -s "$log" ] && { say "== $log"; tail -n 8 "$log" >&2; }; done
  stop_all
  die "$@"
}

start() {
  if [ -e "$F/s3.env" ] && ! grep -qx "S3_ENDPOINT=http://127.0.0.1:$PORT" "$F/s3.env"; then
    die "$F was made for another port: $(head -n 1 "$F/s3.env")"
  fi
  if [ -e "$F/s3.env" ] && running mon >/dev/null && running osd >/dev/null && running rgw >/dev/null; then
    cat "$F/s3.env"; return
  fi
  stop_all
  trap 'stop_all; exit 130' INT TERM
  local mkfs=0 uuid
  if [ -e "$F/s3.env" ]; then
    # shellcheck disable=SC1091
    . "$F/s3.env"
    if grep -q '^osd objectstore = memstore' "$F/ceph.conf"; then S3_STORE=memstore mkfs=1; fi
  else
    mkfs=1
  fi
  if [ $mkfs = 1 ]; then
    rm -rf "$F/mon" "$F/osd"    # what a failed start or a stopped memstore left
  fi
  python3 - "$PORT" 2>/dev/null <<'PY' || die "ports $PORT to $((PORT + 9)) must be free"
import socket, sys
for port in range(int(sys.argv[1]), int(sys.argv[1]) + 10):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('127.0.0.1', port))
    s.close()
PY
  mkdir -p "$F"/{mon,osd,rgw,run,log}
  : "${S3_BUCKET:=test}" "${S3_ACCESS_KEY:=key$(od -An -tx8 -N8 /dev/urandom | tr -d ' ')}"
  : "${S3_SECRET_KEY:=$(od -An -tx8 -N16 /dev/urandom | tr -d ' \n')}"
  if [ $mkfs = 1 ]; then
    STORE=${S3_STORE:-bluestore}
    write_conf
    monmaptool --create --clobber --fsid "$(sed -n 's/^fsid = //p' "$F/ceph.conf")" \
      --addv a "[v1:127.0.0.1:$((PORT + 1))]" "$F/monmap" >"$F/log/mkfs.out" 2>&1 &&
      ceph-mon -c "$F/ceph.conf" -i a --mkfs --monmap "$F/monmap" >>"$F/log/mkfs.out" 2>&1 || failed "ceph-mon --mkfs failed"
  fi
  launch mon ceph-mon -i a
  if [ $mkfs = 1 ]; then
    uuid=$(cat /proc/sys/kernel/random/uuid)
    watched 50 ceph-osd -c "$F/ceph.conf" -i 0 --mkfs --osd-uuid "$uuid" || failed "ceph-osd --mkfs failed"
    # A mon that has just become the leader may still refuse commands (EPERM): asked again, it makes no second OSD.
    # shellcheck disable=SC2016
    watched 30 bash -c 'until ceph -c "$1" osd new "$2" 0; do sleep 0.1; done' - "$F/ceph.conf" "$uuid" ||
      failed "the mon does not answer"
  fi
  launch osd ceph-osd -i 0 --no-mon-config
  if [ $mkfs = 1 ]; then
    watched 50 radosgw-admin -c "$F/ceph.conf" -n client.rgw --no-mon-config user create --uid=test --display-name=test \
      --access-key="$S3_ACCESS_KEY" --secret-key="$S3_SECRET_KEY" || failed "no user could be made"
  fi
  launch rgw radosgw -n client.rgw --no-mon-config
  prepare_bucket || failed "radosgw does not answer"
  printf '%s\n' "S3_ENDPOINT=http://127.0.0.1:$PORT" S3_REGION=us-east-1 "S3_BUCKET=$S3_BUCKET" \
    "S3_ACCESS_KEY=$S3_ACCESS_KEY" "S3_SECRET_KEY=$S3_SECRET_KEY" >"$F/s3.env"
  cat "$F/s3.env"
}

case "${1-} $#" in
  'stop 2')
    [ -d "$2" ] || exit 0
    F=$(realpath "$2"); stop_all ;;
  'gateway 2')
    F=$(realpath "$2")
    # shellcheck disable=SC1091
    . "$F/s3.env"
    PORT=${S3_ENDPOINT##*:}
    launch rgw radosgw -n client.rgw --no-mon-config
    prepare_bucket || failed "radosgw does not answer" ;;
  *' 2')
    [[ $2 =~ ^[0-9]{4,5}$ ]] || die "PORT must be a number: $2"
    mkdir -p "$1"; F=$(realpath "$1"); PORT=$2; start ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
