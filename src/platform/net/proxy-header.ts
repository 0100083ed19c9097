/**
 * The client's address as a load balancer sends it at the start of a connection: the PROXY protocol, versions 1
 * and 2 (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt). Only balancers that the operator named
 * are trusted.
 */
import { isIP, type Socket, SocketAddress } from 'node:net';

/** Section 2.1: the longest line of version 1, with CRLF. */
const LINE_MAX = 107;
/** Section 2.2: the start of version 2. */
const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const FIXED = SIGNATURE.length + 4;
/** Octets after the fixed part of version 2: addresses, and extensions, which are skipped. */
const REST_MAX = 4_096;

/** The result so far: more bytes are needed, it is not a header, or the client's address. */
type Reading = 'more' | 'bad' | { readonly length: number; readonly address: string | undefined };

/**
 * Reads the header and leaves what follows in the socket.
 *
 * @param withinMs how long it may take to come
 * @returns the client's address; the socket's own where the balancer connects for itself, such as for a health
 *   check; undefined where there is no valid header
 */
export function readProxyHeader(socket: Socket, withinMs: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  let said = Buffer.alloc(0);
  const end = (address?: string) => {
    clearTimeout(timer);
    socket.off('readable', onReadable).off('end', giveUp).off('close', giveUp);
    resolve(address);
  };
  const giveUp = () => end();
  const onReadable = () => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    said = Buffer.concat([said, chunk]);
    const reading = readHeader(said);
    if (reading === 'more') return;
    if (reading === 'bad') return giveUp();
    // Before the rest is put back: that makes the socket readable at once.
    end(reading.address ?? socket.remoteAddress);
    const rest = said.subarray(reading.length);
    if (rest.length > 0) socket.unshift(rest);
  };
  const timer = setTimeout(giveUp, withinMs);
  socket.on('readable', onReadable).once('end', giveUp).once('close', giveUp);
  onReadable();
  return promise;
}

/** @param said all bytes that have come so far */
export function readHeader(said: Buffer): Reading {
  const head = said.subarray(0, SIGNATURE.length);
  if (head.equals(SIGNATURE.subarray(0, head.length))) {
    return said.length < FIXED ? 'more' : readBinary(said);
  }
  return readLine(said);
}

/** Section 2.1: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 25` and CRLF. */
function readLine(said: Buffer): Reading {
  const text = said.toString('latin1', 0, LINE_MAX);
  if (!'PROXY '.startsWith(text.slice(0, 6))) return 'bad';
  const end = text.indexOf('\r\n');
  if (end < 0) return text.length < LINE_MAX ? 'more' : 'bad';
  const length = end + 2;
  const [, family, address = ''] = text.slice(0, end).split(' ');
  if (family === 'UNKNOWN') return { length, address: undefined };
  const kind = family === 'TCP4' ? 4 : family === 'TCP6' ? 6 : undefined;
  return isIP(address) === kind ? { length, address } : 'bad';
}

/** Section 2.2. */
function readBinary(said: Buffer): Reading {
  const [command = 0, family = 0] = said.subarray(SIGNATURE.length);
  const rest = said.readUInt16BE(SIGNATURE.length + 2);
  if (command >> 4 !== 2 || rest > REST_MAX) return 'bad';
  const length = FIXED + rest;
  if (said.length < length) return 'more';
  // LOCAL: the balancer connects for itself.
  if ((command & 0xf) === 0) return { length, address: undefined };
  if ((command & 0xf) !== 1) return 'bad';
  const addresses = said.subarray(FIXED, length);
  if (family === 0x11 && rest >= 12) {
    return { length, address: [...addresses.subarray(0, 4)].join('.') };
  }
  if (family === 0x21 && rest >= 36) {
    const groups = Array.from({ length: 8 }, (_, at) =>
      addresses.readUInt16BE(2 * at).toString(16),
    );
    const { address } = new SocketAddress({ family: 'ipv6', address: groups.join(':') });
    return { length, address };
  }
  return 'bad';
}
