/** Senders that are refused: addresses, domains, networks. */
import { defineComponent, reactive, shallowRef } from 'vue';
import { type ApiError, act, read } from '../api/client.ts';
import { asApiError, loadList } from '../api/load.ts';
import type { BlockItem, Page } from '../api/types.ts';
import { Card, Failure, Heading, When } from '../ui/basics.tsx';
import { ask } from '../ui/dialogs.tsx';
import { count, formatName } from '../ui/format.ts';
import { type Chosen, ListTable } from '../ui/list-table.tsx';
import { say } from '../ui/messages.tsx';
import { startWork } from '../ui/work.tsx';

const kinds = [
  ['address', 'Address', 'spam@elsewhere.test'],
  ['domain', 'Domain', 'elsewhere.test'],
  ['network', 'Network', '192.0.2.0/24'],
] as const;

export const Blocks = defineComponent(() => {
  const list = loadList(
    () => '',
    (_none, cursor, signal) => read<Page<BlockItem>>('/blocks', { cursor }, signal),
    ({ id }) => id,
  );
  return () => (
    <div class="screen">
      <Heading
        title="Blocks"
        lead="Mail of these senders is refused for good (550 5.7.1), on all nodes. What your own relays bring (SMTP_TRUSTED_NETWORKS) is not refused."
      />
      <Card title="Block a sender">{() => <BlockForm done={list.reload} />}</Card>
      <Card>
        {() => (
          <ListTable
            caption="Blocked senders"
            list={list}
            empty={['Nobody is blocked', 'A block works from the next message on.']}
            columns={[
              { head: 'Sender', isWide: true, cell: ({ value }) => value },
              { head: 'Kind', cell: ({ kind }) => formatName(kind) },
              { head: 'Note', isWide: true, cell: ({ note }) => note ?? '–' },
              { head: 'Since', cell: ({ created_at }) => <When at={created_at} /> },
            ]}
            nameOf={({ value }) => value}
            bulk={(chosen) => [
              { label: 'Unblock', run: () => askToUnblockAll(chosen, list.reload) },
            ]}
            actions={(row) => [{ label: 'Unblock', run: () => askToUnblock(row, list.reload) }]}
          />
        )}
      </Card>
    </div>
  );
});

const BlockForm = defineComponent(
  (props: { done: () => Promise<void> }) => {
    const values = reactive({ kind: 'address', value: '', note: '' });
    const error = shallowRef<ApiError>();
    let isRunning = false;
    const submit = async (event: Event) => {
      event.preventDefault();
      if (isRunning) return;
      isRunning = true;
      try {
        const { note, ...block } = values;
        const value = block.value.trim();
        await act('/blocks', { ...block, value, ...(note && { note }) });
        error.value = undefined;
        say(`${value} is blocked.`);
        // What was typed meanwhile is the next one.
        if (values.value.trim() === value) Object.assign(values, { value: '', note: '' });
        await props.done();
      } catch (failure) {
        error.value = asApiError(failure);
      } finally {
        isRunning = false;
      }
    };
    const set = (name: keyof typeof values) => (event: Event) => {
      values[name] = (event.target as HTMLInputElement | HTMLSelectElement).value;
    };
    return () => (
      <form onSubmit={(event) => void submit(event)} class="stack">
        <Failure error={error.value} />
        <div class="filters">
          <div class="field">
            <label for="block-kind">Kind</label>
            <select id="block-kind" value={values.kind} onChange={set('kind')}>
              {kinds.map(([kind, label]) => (
                <option key={kind} value={kind}>
                  {label}
                </option>
              ))}
            </select>
          </div>
          <div class="field">
            <label for="block-value">Sender</label>
            <input
              id="block-value"
              required
              spellcheck={false}
              autocomplete="off"
              placeholder={kinds.find(([kind]) => kind === values.kind)?.[2]}
              value={values.value}
              onInput={set('value')}
            />
          </div>
          <div class="field">
            <label for="block-note">Note</label>
            <input
              id="block-note"
              autocomplete="off"
              placeholder="Why"
              value={values.note}
              onInput={set('note')}
            />
          </div>
          <button type="submit" class="main">
            Block
          </button>
        </div>
      </form>
    );
  },
  { props: ['done'] },
);

function askToUnblock({ id, value }: BlockItem, done: () => Promise<void>): void {
  ask({
    title: `Unblock ${value}?`,
    action: 'Unblock',
    text: () => <p>Its mail is accepted again, from the next message on.</p>,
    run: async () => {
      await act('/blocks/delete', { id });
      say(`${value} is no longer blocked.`);
      await done();
    },
  });
}

/** @returns false where another operator did it before */
async function unblock(id: number): Promise<boolean> {
  try {
    await act('/blocks/delete', { id });
    return true;
  } catch (error) {
    if (asApiError(error).code === 'block_not_found') return false;
    throw error;
  }
}

function askToUnblockAll({ keys, clear }: Chosen, done: () => Promise<void>): void {
  const senders = count(keys.length, 'sender');
  ask({
    title: `Unblock ${senders}?`,
    action: 'Unblock',
    text: () => <p>Their mail is accepted again, from the next message on.</p>,
    run: async () => {
      clear();
      const step = async (next = '0') => {
        const place = Number(next);
        const isDone = await unblock(Number(keys[place]));
        const more = place + 1 < keys.length;
        const skipped = isDone ? {} : { gone: 1 };
        return { matched: 1, changed: isDone ? 1 : 0, skipped, more, next: String(place + 1) };
      };
      startWork({
        title: `Unblock ${senders}`,
        matched: keys.length,
        done: 'unblocked',
        left: { gone: 'somebody else did it before' },
        step,
        after: done,
      });
    },
  });
}
