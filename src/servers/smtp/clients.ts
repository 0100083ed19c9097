/** Who connects, what a connection is given to serve them, and how many connections accounts may hold. */
import type { SecureContext } from 'node:tls';
import type { MailReceiver } from '../../mail/delivery/delivery.ts';
import type { Refusal } from '../../platform/errors/errors.ts';
import type { GivenLogin } from '../../protocols/sasl/sasl.ts';
import type { MostSlots } from '../../tenants/accounts/accounts.ts';
import type { ProtocolOptions } from './protocol-events.ts';
import type { RefusalsOptions } from './refusals.ts';

export interface ConnectionSettings extends Omit<ProtocolOptions, 'login'>, RefusalsOptions {
  /** Where mail goes: of strangers, or of each account after its login. */
  readonly delivery: MailReceiver | Submission;
  /** Whether a connection begins with TLS (RFC 8314 section 3.3). */
  readonly isSecure?: boolean | undefined;
  /** The certificate to use now. */
  readonly secureContext: () => SecureContext;
  /** Milliseconds that one message may take to arrive. */
  readonly messageTimeout: number;
  /** Milliseconds in which a stranger must not send anything yet; 0 turns this off. */
  readonly greetingDelay: number;
  /** Why mail of this sender from a stranger at this address is refused, if it is. */
  readonly findBlock?: ((client: string, from: string) => Refusal | undefined) | undefined;
}

/** Takes mail of accounts (RFC 6409). */
export interface Submission {
  /**
   * @param ip address of the client
   * @throws Refusal unauthorized, account_inactive, rate_limited, unavailable
   */
  logIn(given: GivenLogin, ip: string): Promise<Submitter>;
}

/** Takes mail of one account, which has logged in. */
export interface Submitter extends MailReceiver {
  readonly accountId: number;
  /** Whose account it is. */
  readonly userId: string;
  /** Whether the account may send as this reverse-path now; `''` for the null sender. */
  checkSender(from: string): Promise<Refusal | undefined>;
}

/** Who is connected. */
export interface Client {
  readonly address: string;
  /** Whether it is a relay of the operator; all others are strangers. */
  readonly isTrusted: boolean;
  /** Whether it must log in, and how it may. */
  readonly login: ProtocolOptions['login'];
  /** Begins a command, or a piece of what came. @returns what to wait for where the client has used its share of this turn */
  enterTurn(): Promise<void> | undefined;
  /** Counts octets of an unfinished message; false where the client has reached its limit. */
  stage(octets: number): boolean;
  /** Subtracts them from the count. */
  unstage(octets: number): void;
  /** Counts the connection for its account and user from now on; false where one has too many, or the client left. */
  logIn(account: Pick<Submitter, 'accountId' | 'userId'>): boolean;
}

/**
 * How many connections accounts may hold after their login: they take none from strangers, and strangers none from them. The
 * accounts of a user hold a tenth of all, and no fewer than one account.
 */
export function submitterSlots(all: number): MostSlots {
  const account = 20;
  return { account, user: Math.max(account, all / 10), all, leavesAsMany: true };
}
