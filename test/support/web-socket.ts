/** A client of the realtime channel that hands out what it is told, one message at a time. */
import { WebSocket } from 'ws';

export interface TestSocket {
  // biome-ignore lint/suspicious/noExplicitAny: tests assert on whatever JSON came
  next(): Promise<any>;
  /** The code the server closed with. */
  readonly closed: Promise<number>;
  close(): void;
}

/** Connects and waits until the connection is open. */
export async function openSocket(
  { url }: { readonly url: string },
  token: string,
): Promise<TestSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const messages: unknown[] = [];
  const waiting: ((message: unknown) => void)[] = [];
  socket.on('message', (text: Buffer) => {
    const message: unknown = JSON.parse(text.toString());
    const next = waiting.shift();
    if (next) next(message);
    else messages.push(message);
  });
  const closed = new Promise<number>((resolve) => socket.once('close', (code) => resolve(code)));
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  return {
    next: () =>
      messages.length > 0
        ? Promise.resolve(messages.shift())
        : new Promise((resolve) => waiting.push(resolve)),
    closed,
    close: () => socket.close(),
  };
}
