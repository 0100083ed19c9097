/** An IMAP listener whose mail store and logins are what a test says: an address is the number of its account. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import pino from 'pino';
import {
  type ImapListener,
  type ImapMailstore,
  type ImapOptions,
  ImapSlots,
  OpenSessions,
  startImap,
} from '../../src/servers/imap/imap.ts';
import { CERTIFICATE } from './certificate.ts';

export function startImapWith(options: Partial<ImapOptions>): Promise<ImapListener> {
  return startImap({
    // No mailbox is opened.
    mailstore: {} as ImapMailstore,
    logins: {
      withPassword: async (address) => ({
        accountId: Number(address),
        address,
        userId: 'u',
        credentialVersion: 5,
        expiresAt: 0,
      }),
      withToken: () => assert.fail(),
    },
    // Sessions are compared with it each minute.
    accessOf: async (ids) =>
      new Map(ids.map((id) => [id, { status: 'active', credentialVersion: 5 }])),
    appPasswordsThere: async () => new Set(),
    changes: { subscribe: () => () => {} },
    maxMessageBytes: 1_000,
    hostname: 'mail.test',
    host: '127.0.0.1',
    port: 0,
    isSecure: false,
    tls: { cert: readFileSync(CERTIFICATE.TLS_CERT), key: readFileSync(CERTIFICATE.TLS_KEY) },
    isBalancer: () => false,
    slots: new ImapSlots(),
    sessions: new OpenSessions(),
    logger: pino({ level: 'silent' }),
    ...options,
  });
}
