import type { Socket } from '../../src/mail/platform.ts';
import type { FakeServer } from '../../src/testing/testing.ts';

/** The platform of a mail client in one tab, whose network and clock are the server's. */
export function platformOf(server: FakeServer) {
  const { clock } = server;
  return {
    now: clock.now,
    ticks: clock.now,
    after: (ms: number, call: () => void) => {
      const timer = clock.setTimeout(call, ms);
      return () => clock.clearTimeout(timer);
    },
    fetch: server.fetch,
    connect: (url: string, protocols: string[]) =>
      new server.WebSocket(url, protocols) as unknown as Socket,
    openChannel: undefined,
  };
}
