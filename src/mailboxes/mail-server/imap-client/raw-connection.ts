/**
 * An account that is opened for a mail program and then left to it: what either side sends is passed on as it comes.
 */
import { Wire } from '../../../platform/net/net.ts';
import { ImapFailure } from './failure.ts';
import { type LinkOptions, openLink } from './open-link.ts';

export interface RawConnection {
  readonly wire: Wire;
  /** What the server may do for the account, as it said after the login. */
  readonly capabilities: string;
  /** What it sent after that. */
  readonly early: Buffer;
  /** Ends it at once. */
  destroy(): void;
}

/** @throws ImapFailure */
export async function openRaw(options: Required<LinkOptions>): Promise<RawConnection> {
  const link = await openLink(options);
  // RFC 8437: the program could leave its account, and guess passwords of others as often as it likes.
  if (link.has('UNAUTHENTICATE')) {
    const failure = new ImapFailure('may_leave', { command: 'LOGIN' });
    link.fail(failure);
    throw failure;
  }
  const capabilities = link.capabilities.join(' ');
  const { socket, early } = link.leave();
  return { wire: new Wire(socket), capabilities, early, destroy: () => socket.destroy() };
}
