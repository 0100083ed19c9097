/** API keys with a name and a scope: made, shown once, revoked. */
import { defineComponent, reactive, shallowRef } from 'vue';
import { type ApiError, act, read } from '../api/client.ts';
import { asApiError, loadList } from '../api/load.ts';
import type { KeyItem, MadeKey, Page } from '../api/types.ts';
import { Card, Copyable, Failure, Heading, State, When } from '../ui/basics.tsx';
import { ask } from '../ui/dialogs.tsx';
import { formatDay, formatName } from '../ui/format.ts';
import { ListTable } from '../ui/list-table.tsx';
import { say } from '../ui/messages.tsx';

const scopes = [
  ['product', 'Product: all but the operator’s routes'],
  ['user', 'Product, for one user'],
  ['organization', 'Product, for one organization'],
  ['operator', 'Operator: everything'],
] as const;

export const Keys = defineComponent(() => {
  const list = loadList(
    () => '',
    (_none, cursor, signal) => read<Page<KeyItem>>('/keys', { cursor }, signal),
    ({ id }) => id,
  );
  const made = shallowRef<readonly MadeKey[]>([]);
  const show = async (key: MadeKey) => {
    made.value = [key, ...made.value];
    await list.reload();
  };
  const hide = (key: MadeKey) => {
    made.value = made.value.filter((one) => one !== key);
  };
  return () => (
    <div class="screen">
      <Heading
        title="Keys"
        lead="API keys with a name. Those of API_KEYS, and the one of the first start, are settings and not in the list."
      />
      {made.value.map((key) => (
        <Secret key={key.key.id} made={key} close={() => hide(key)} />
      ))}
      <Card title="Make a key">{() => <KeyForm done={show} />}</Card>
      <Card>
        {() => (
          <ListTable
            caption="API keys"
            list={list}
            empty={['No keys yet', 'Give each product a key of its own: it can be revoked alone.']}
            columns={[
              { head: 'Name', isWide: true, cell: nameCell },
              { head: 'Opens', isWide: true, cell: scopeCell },
              { head: 'Status', cell: ({ status }) => <State name={status} /> },
              { head: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} /> },
              { head: 'Ends', cell: ({ expires_at: at }) => (at ? formatDay(at) : '–') },
            ]}
            nameOf={({ name, id }) => `${name}, key ${id}`}
            actions={(row) =>
              row.status === 'revoked'
                ? []
                : [{ label: 'Revoke', isDangerous: true, run: () => askToRevoke(row, list.reload) }]
            }
          />
        )}
      </Card>
    </div>
  );
});

function nameCell({ id, name, created_by, created_at }: KeyItem) {
  return (
    <>
      {name}
      <span class="below">
        key {id}, made <When at={created_at} /> by {created_by}
      </span>
    </>
  );
}

function scopeCell({ scope, user_id, organization_id, read_only }: KeyItem) {
  return (
    <>
      {formatName(scope)}
      {read_only && ', only reads'}
      {user_id !== undefined && (
        <span class="below">
          user <code>{user_id}</code>
        </span>
      )}
      {organization_id !== undefined && (
        <span class="below">
          organization <code>{organization_id}</code>
        </span>
      )}
    </>
  );
}

/** It stays until it is put away: the key is shown only here. */
function Secret({ made: { key, api_key }, close }: { made: MadeKey; close: () => void }) {
  return (
    <div class="notice wait" role="status">
      <p>The key {key.name} is shown only now. Save it where its program finds it.</p>
      <p>
        <Copyable text={api_key} name={`the key ${key.name}`} />
      </p>
      <button type="button" class="plain" onClick={close}>
        I have saved it
      </button>
    </div>
  );
}

const KeyForm = defineComponent(
  (props: { done: (made: MadeKey) => Promise<void> }) => {
    const blank = { name: '', scope: 'product', bound: '', end: '', access: 'change' };
    const values = reactive({ ...blank });
    const error = shallowRef<ApiError>();
    let isRunning = false;
    const submit = async (event: Event) => {
      event.preventDefault();
      // A second press would make a second key, and the first would never be seen.
      if (isRunning) return;
      isRunning = true;
      try {
        const made = await act<MadeKey>('/keys', bodyOf(values));
        error.value = undefined;
        Object.assign(values, blank);
        await props.done(made);
      } catch (failure) {
        error.value = asApiError(failure);
      } finally {
        isRunning = false;
      }
    };
    const set = (name: keyof typeof blank) => (event: Event) => {
      values[name] = (event.target as HTMLInputElement | HTMLSelectElement).value;
    };
    return () => (
      <form onSubmit={(event) => void submit(event)} class="stack">
        <Failure error={error.value} />
        <div class="filters">
          <Text id="key-name" label="Name" value={values.name} set={set('name')} required />
          <div class="field">
            <label for="key-scope">Opens</label>
            <select id="key-scope" value={values.scope} onChange={set('scope')}>
              {scopes.map(([scope, label]) => (
                <option key={scope} value={scope}>
                  {label}
                </option>
              ))}
            </select>
          </div>
          {(values.scope === 'user' || values.scope === 'organization') && (
            <Text
              id="key-bound"
              label={values.scope === 'user' ? 'user_id' : 'organization_id'}
              value={values.bound}
              set={set('bound')}
              required
            />
          )}
          <Text id="key-end" label="Ends" type="date" value={values.end} set={set('end')} />
          <div class="field">
            <label for="key-access">May</label>
            <select id="key-access" value={values.access} onChange={set('access')}>
              <option value="change">Read and change</option>
              <option value="read">Only read</option>
            </select>
          </div>
          <button type="submit" class="main">
            Make key
          </button>
        </div>
      </form>
    );
  },
  { props: ['done'] },
);

interface TextProps {
  id: string;
  label: string;
  value: string;
  set: (event: Event) => void;
  type?: string;
  required?: boolean;
}

function Text({ id, label, value, set, type = 'text', required = false }: TextProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type={type}
        required={required}
        spellcheck={false}
        autocomplete="off"
        value={value}
        onInput={set}
      />
    </div>
  );
}

interface Wanted {
  readonly name: string;
  readonly scope: string;
  readonly bound: string;
  readonly end: string;
  readonly access: string;
}

function bodyOf({ name, scope, bound, end, access }: Wanted): object {
  return {
    name: name.trim(),
    scope: scope === 'operator' ? 'operator' : 'product',
    ...(scope === 'user' && { user_id: bound }),
    ...(scope === 'organization' && { organization_id: bound }),
    ...(end && { expires_at: end }),
    read_only: access === 'read',
  };
}

export function askToRevoke({ id, name }: KeyItem, done: () => Promise<void>): void {
  ask({
    title: `Revoke ${name} (key ${id})?`,
    action: 'Revoke',
    isDangerous: true,
    text: () => (
      <p>
        It opens nothing any more, at once and on all nodes, and that cannot be undone. To replace
        it without a gap, make the next key first.
      </p>
    ),
    run: async () => {
      await act('/keys/revoke', { id });
      say(`${name} (key ${id}) is revoked.`);
      await done();
    },
  });
}
