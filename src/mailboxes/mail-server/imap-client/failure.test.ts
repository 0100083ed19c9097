import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImapFailure } from './failure.ts';

const refusalTo = (command: string, said: string, responseCode?: string) =>
  new ImapFailure('said_no', {
    command,
    said,
    ...(responseCode !== undefined && { responseCode }),
  }).toRefusal();

test('a NO that may be a yes a moment later is unavailable, any other is refused for good', () => {
  // The words of Dovecot, Cyrus and Courier.
  for (const [command, said, code] of [
    [
      'UID STORE',
      'Internal error occurred. Refer to server log for more information.',
      'SERVERBUG',
    ],
    ['CREATE', 'Server(s) unavailable to complete operation'],
    ['UID MOVE', 'System I/O error'],
    ['RENAME', 'Mailbox is locked'],
    // Of the mailbox of this name that was deleted a moment ago.
    ['DELETE', 'Mailbox already exists'],
  ] as const) {
    assert.equal(refusalTo(command, said, code).code, 'unavailable', said);
  }
  for (const [command, said, code, is] of [
    ['CREATE', 'Mailbox already exists', 'ALREADYEXISTS', 'mailbox_exists'],
    ['CREATE', 'Invalid mailbox name', undefined, 'mail_server_refused'],
    ['DELETE', 'Mailbox has inferior hierarchical names', 'HASCHILDREN', 'mailbox_has_children'],
    ['UID STORE', 'Keyword length too long', undefined, 'mail_server_refused'],
  ] as const) {
    assert.equal(refusalTo(command, said, code).code, is, said);
  }
});
