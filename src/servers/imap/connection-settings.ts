/** What a connection is given, and the words with which it ends. */
import type { SecureContext } from 'node:tls';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import type { Ended } from './run-command.ts';
import type { ImapServices } from './session.ts';

export interface ConnectionSettings extends ImapServices {
  readonly hostname: string;
  readonly changes: Pick<Changes, 'subscribe'>;
  readonly secureContext: () => SecureContext;
  /** Takes a place for one more connection of the account; undefined where it has none left. */
  readonly admit: (user: MailAccess) => (() => void) | undefined;
  readonly onCommand?: ((ended: Ended) => void) | undefined;
  /** Called with octets that came from the client, and with those that it got. */
  readonly onOctets?: ((direction: 'received' | 'sent', octets: number) => void) | undefined;
}

/** Why a session that was open may not go on. */
export const LOST = 'The account was suspended or deleted, or its password was changed';
export const REVOKED = 'The app password was revoked';
export const ENDED = 'The session was ended by the operator of the server';
