/** How mail programs get into an account, and what they have open: each password and each session can be ended. */
import { defineComponent } from 'vue';
import { act, call, read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { AccountPage, AppPasswordItem, ImapSessionItem, Page } from '../api/types.ts';
import { Card, Empty, Failure, When } from '../ui/basics.tsx';
import { DataTable, Loading } from '../ui/data-table.tsx';
import { ask } from '../ui/dialogs.tsx';
import { formatBytes } from '../ui/format.ts';
import { say } from '../ui/messages.tsx';

const SESSIONS_EVERY_MS = 15_000;
const PASSWORDS_EVERY_MS = 60_000;

type Account = Pick<AccountPage, 'id' | 'address' | 'user_id'>;
type SessionPage = Page<ImapSessionItem> & { readonly complete: boolean };
type Done = () => Promise<void>;

export const Programs = defineComponent(
  (props: { account: Account }) => {
    const path = () => `/v2/email-accounts/${props.account.id}/app-passwords`;
    const passwords = load(
      () => props.account.id,
      (_id, signal) => {
        const query = { user_id: props.account.user_id };
        return call<{ items: readonly AppPasswordItem[] }>('GET', path(), { query, signal });
      },
      PASSWORDS_EVERY_MS,
    );
    const sessions = load(
      () => props.account.id,
      (account_id, signal) => read<SessionPage>('/imap-sessions', { account_id }, signal),
      SESSIONS_EVERY_MS,
    );
    const reload = async () => {
      await Promise.all([passwords.reload(), sessions.reload()]);
    };
    return () => (
      <>
        <Card title="Mail programs now">
          {() => (
            <>
              <Failure error={sessions.error.value} retry={() => void sessions.reload()} />
              {!sessions.data.value && !sessions.error.value && <Loading />}
              {sessions.data.value && (
                <Sessions
                  page={sessions.data.value}
                  passwords={passwords.data.value?.items ?? []}
                  done={reload}
                />
              )}
            </>
          )}
        </Card>
        <Card title="App passwords">
          {() => (
            <>
              <Failure error={passwords.error.value} retry={() => void passwords.reload()} />
              {!passwords.data.value && !passwords.error.value && <Loading />}
              {passwords.data.value && (
                <Passwords
                  items={passwords.data.value.items}
                  revoke={(one) => askToRevoke(one, props.account, `${path()}/${one.id}`, reload)}
                />
              )}
            </>
          )}
        </Card>
      </>
    );
  },
  { props: ['account'] },
);

interface SessionsProps {
  page: SessionPage;
  passwords: readonly AppPasswordItem[];
  done: Done;
}

function Sessions({ page: { items, complete, cursor }, passwords, done }: SessionsProps) {
  return (
    <>
      {!complete && (
        <p class="soft">
          Not all nodes have answered: there may be more sessions than those shown.
        </p>
      )}
      {cursor !== undefined && (
        <p class="soft">These are the newest {items.length}: more are open.</p>
      )}
      {items.length === 0 ? (
        <Empty title="No mail program is connected">
          {() => 'Sessions by IMAP are shown while they are open.'}
        </Empty>
      ) : (
        <DataTable
          caption="Mail programs now"
          rows={items}
          keyOf={({ id }) => id}
          columns={[
            { head: 'Program', isWide: true, cell: (one) => programCell(one, passwords) },
            { head: 'From', priority: 1, cell: ({ client }) => <code>{client}</code> },
            { head: 'Since', cell: ({ since }) => <When at={since} /> },
            {
              head: 'Last command',
              cell: ({ last_command, last_command_at: at }) => (
                <>
                  {last_command}
                  <span class="below">
                    <When at={at} />
                  </span>
                </>
              ),
            },
            { head: 'Got', isNumber: true, cell: ({ bytes_out }) => formatBytes(bytes_out) },
            {
              head: 'End',
              priority: 1,
              cell: (one) => (
                <button
                  type="button"
                  class="danger"
                  aria-label={`End the session from ${one.client}, ${one.id}`}
                  onClick={() => askToEnd(one, done)}
                >
                  End
                </button>
              ),
            },
          ]}
        />
      )}
    </>
  );
}

function programCell(session: ImapSessionItem, passwords: readonly AppPasswordItem[]) {
  const { program, mailbox, secure, app_password_id: id } = session;
  const named = passwords.find((one) => one.id === id)?.name ?? `app password ${id}`;
  const facts = [
    ...(id === undefined ? [] : [`by ${named}`]),
    ...(mailbox === undefined ? [] : [`in ${mailbox}`]),
    ...(secure ? [] : ['without TLS']),
  ];
  return (
    <>
      {program ?? 'It does not say what it is'}
      {facts.length > 0 && <span class="below">{facts.join(', ')}</span>}
    </>
  );
}

function askToEnd({ id, client, program }: ImapSessionItem, done: Done): void {
  ask({
    title: `End the session of ${program ?? 'the program'} from ${client}?`,
    action: 'End',
    isDangerous: true,
    text: () => (
      <p>
        It ends at once. The program may log in again: to keep it out, revoke its app password, or
        suspend the account.
      </p>
    ),
    run: async () => {
      await act(`/imap-sessions/${encodeURIComponent(id)}/end`, {});
      say(`The session from ${client} has ended.`);
      await done();
    },
  });
}

interface PasswordsProps {
  items: readonly AppPasswordItem[];
  revoke: (one: AppPasswordItem) => void;
}

function Passwords({ items, revoke }: PasswordsProps) {
  if (items.length === 0) {
    return (
      <Empty title="It has none">
        {() => 'Products make them by the API: one for each mail program.'}
      </Empty>
    );
  }
  return (
    <DataTable
      caption="App passwords"
      rows={items}
      keyOf={({ id }) => id}
      columns={[
        { head: 'Name', isWide: true, cell: ({ name }) => name },
        { head: 'Made', cell: ({ created_at: at }) => <When at={at} /> },
        {
          head: 'Last used',
          priority: 1,
          cell: ({ last_used_at: at }) => (at ? <When at={at} /> : 'Never'),
        },
        {
          head: 'Revoke',
          priority: 1,
          cell: (one) => (
            <button
              type="button"
              class="danger"
              aria-label={`Revoke ${one.name}, ${one.id}`}
              onClick={() => revoke(one)}
            >
              Revoke
            </button>
          ),
        },
      ]}
    />
  );
}

function askToRevoke(
  { name }: AppPasswordItem,
  { address, user_id }: Account,
  path: string,
  done: Done,
): void {
  ask({
    title: `Revoke ${name} of ${address}?`,
    action: 'Revoke',
    isDangerous: true,
    text: () => (
      <p>
        The mail program that has it is signed out at once, on all nodes, and that cannot be undone.
        Other programs go on.
      </p>
    ),
    run: async () => {
      await call('POST', `${path}/delete`, { body: { user_id } });
      say(`${name} is revoked.`);
      await done();
    },
  });
}
