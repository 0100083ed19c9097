/** The mailboxes of an account: listed, created, renamed, deleted. */
import { Type } from 'typebox';
import {
  type ChangedMailbox,
  type Mailstore,
  NEW_NAME_MAX,
} from '../../mailboxes/mailstore/mailstore.ts';
import { mailboxName, mailboxState, mailboxStateSchema } from './mail-schemas.ts';
import { answerWithin } from './repeat-safely.ts';
import type { Api, RouteGroup, RouteTools } from './route-tools.ts';
import { Integer, Text } from './schemas.ts';

const summary = Type.Object(
  {
    ...mailboxState,
    mailboxId: Type.Optional(Text('Stays the same when the mailbox is renamed.', 'm7')),
    specialUse: Type.Optional(Text('RFC 6154 attribute.', '\\Sent')),
    messages: Integer('Messages in it.', 12),
    unseen: Integer('How many of them lack `\\Seen`.', 3),
  },
  { title: 'Mailbox' },
);

export function mailMailboxRoutes(mailstore: Mailstore): RouteGroup {
  return (app, tools) => {
    app.get('/mail/mailboxes', {
      schema: {
        summary: 'List mailboxes',
        operationId: 'listMailboxes',
        description:
          'Every mailbox of the account, INBOX first. `token` is what a sync returns now.',
        response: { 200: Type.Object({ mailboxes: Type.Array(summary) }) },
      },
      handler: async (request) => {
        const user = await tools.authenticateMail(request);
        return { mailboxes: await mailstore.listMailboxes(user) };
      },
    });
    app.post('/mail/mailboxes/create', {
      schema: {
        summary: 'Make a mailbox',
        operationId: 'createMailbox',
        description: 'Levels of a name are separated by `/`.',
        body: Type.Object(
          { mailbox: mailboxName('Name of the new mailbox.', NEW_NAME_MAX) },
          { examples: [{ mailbox: 'Projects' }] },
        ),
        response: { 201: mailboxStateSchema },
      },
      config: { refusals: ['mailbox_exists', 'mail_server_refused'] },
      handler: async (request, reply) => {
        const user = await tools.authenticateMail(request);
        const within = answerWithin(request, 201, describeState);
        const { state } = await mailstore.createMailbox(user, request.body.mailbox, within);
        return reply.code(201).send(state);
      },
    });
    renameAndDelete(app, tools, mailstore);
  };
}

const describeState = ({ state }: ChangedMailbox) => state;

function renameAndDelete(app: Api, tools: RouteTools, mailstore: Mailstore): void {
  app.post('/mail/mailboxes/rename', {
    schema: {
      summary: 'Rename a mailbox',
      operationId: 'renameMailbox',
      description:
        'Also renames the mailboxes below it. INBOX and special-use mailboxes cannot be renamed.',
      body: Type.Object(
        {
          mailbox: mailboxName('Its name now.'),
          to: mailboxName('Its new name.', NEW_NAME_MAX),
        },
        { examples: [{ mailbox: 'Projects', to: 'Archive/Projects' }] },
      ),
      response: { 200: mailboxStateSchema },
    },
    config: {
      refusals: ['mailbox_not_found', 'mailbox_exists', 'mailbox_protected', 'mail_server_refused'],
    },
    handler: async (request) => {
      const user = await tools.authenticateMail(request);
      const { mailbox, to } = request.body;
      const within = answerWithin(request, 200, describeState);
      return (await mailstore.renameMailbox(user, mailbox, to, undefined, within)).state;
    },
  });
  app.post('/mail/mailboxes/delete', {
    schema: {
      summary: 'Delete a mailbox with its messages',
      operationId: 'deleteMailbox',
      description:
        'Deletes it for good. Mailboxes below it stay. INBOX and special-use mailboxes cannot be deleted.',
      body: Type.Object(
        { mailbox: mailboxName('Name of the mailbox.') },
        { examples: [{ mailbox: 'Projects' }] },
      ),
      response: {
        200: Type.Object({
          ok: Type.Literal(true),
          deleted: Type.String({ examples: ['Projects'] }),
        }),
      },
    },
    config: {
      refusals: [
        'mailbox_not_found',
        'mailbox_has_children',
        'mailbox_protected',
        'mail_server_refused',
      ],
    },
    handler: async (request) => {
      const user = await tools.authenticateMail(request);
      const describe = ({ state }: ChangedMailbox) => ({
        ok: true as const,
        deleted: state.mailbox,
      });
      const within = answerWithin(request, 200, describe);
      return describe(await mailstore.deleteMailbox(user, request.body.mailbox, within));
    },
  });
}
