/** `/v2/operator/imap-sessions`: what mail programs have open, on all nodes. */
import { Type } from 'typebox';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { recordAudit } from '../../tenants/audit/audit.ts';
import {
  actorOf,
  Flag,
  Instant,
  Integer,
  RecordId,
  type RouteGroup,
  Text,
  writerOf,
} from '../api/api.ts';
import type { OpenSession, SessionsOfNodes } from '../imap/imap.ts';
import { answerPage, isKey, listEcho, listFields, readPage } from './lists.ts';

const SessionId = Type.String({ minLength: 1, maxLength: 64, examples: ['5f2c9a01b7de4410'] });

const SessionBody = Type.Object(
  {
    id: SessionId,
    account_id: RecordId,
    address: Text('Of the account.', 'ada@acme.test'),
    client: Text('IP address of the client.', '192.0.2.1'),
    secure: Flag('Whether it is by TLS.'),
    program: Type.Optional(
      Text('What the client says that it is; absent where it says nothing.', 'Thunderbird 140.1'),
    ),
    app_password_id: Type.Optional(Integer('The app password that opened it.', 1)),
    mailbox: Type.Optional(Text('The mailbox that is selected.', 'INBOX')),
    since: Instant('The login.'),
    last_command: Text('It may still run; `other` where it does not exist.', 'IDLE'),
    last_command_at: Instant('When that began.'),
    bytes_in: Integer('What the client sent.', 1840),
    bytes_out: Integer('What it got.', 48211),
    node: Text('Host of its node.', 'mail-1'),
  },
  { title: 'ImapSession', description: 'A session of a mail program.' },
);

const write = writerOf(SessionBody);

function writeSession(session: OpenSession) {
  return write({
    ...session,
    secure: session.isSecure,
    lastCommand: session.command,
    lastCommandAt: session.commandAt,
    bytesIn: session.received,
    bytesOut: session.sent,
    node: session.host,
  });
}

interface ImapSessionParts {
  readonly database: Pick<Database, 'write'>;
  readonly sessions: Pick<SessionsOfNodes, 'list'>;
  readonly changes: Pick<Changes, 'publish'>;
  readonly now: () => EpochMs;
}

export function imapSessionRoutes(parts: ImapSessionParts): RouteGroup {
  return (app) => {
    app.get('/v2/operator/imap-sessions', {
      schema: {
        summary: 'List the sessions of mail programs',
        description:
          'All that are open by IMAP now, the newest login first. Every node is asked: what one does not answer within a second is not in the list.',
        operationId: 'listImapSessions',
        querystring: Type.Object({
          account_id: Type.Optional(RecordId),
          ...listFields,
        }),
        response: {
          200: Type.Object({
            items: Type.Array(SessionBody),
            complete: Flag('Whether all nodes have answered.'),
            ...listEcho,
          }),
        },
      },
      handler: async ({ query }) => {
        const page = readPage(query, isKey('number', 'text'));
        const asked = { accountId: query.account_id, after: page.after, limit: page.limit + 1 };
        const { sessions: found, isComplete } = await parts.sessions.list(asked);
        const items = found.map(writeSession);
        const answer = answerPage(found, page, ({ since, id }) => [since, id], items);
        return { ...answer, complete: isComplete };
      },
    });
    app.post('/v2/operator/imap-sessions/:id/end', {
      config: { refusals: ['session_not_found'] },
      schema: {
        summary: 'End the session of a mail program',
        description:
          'At once, on whichever node it is. The program may log in again: revoke its app password, or suspend the account, to prevent that.',
        operationId: 'endImapSession',
        params: Type.Object({ id: SessionId }),
        response: { 200: SessionBody },
      },
      handler: async (request) => {
        const { database, sessions, changes, now } = parts;
        const { id } = request.params;
        const [session] = (await sessions.list({ id, limit: 1 })).sessions;
        if (!session) throw new Refusal('session_not_found', `there is no open session ${id}`);
        const { accountId, address, client } = session;
        const target = `${address} from ${client} (${id})`;
        const entry = { action: 'imap_session.end', target, at: now() };
        await database.write((tx) => recordAudit(tx, actorOf(request), entry));
        changes.publish({ kind: 'mail_sessions', accountId, by: 'session', id });
        return writeSession(session);
      },
    });
  };
}
