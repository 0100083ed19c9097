/** Sends a message at a time of one's choice. */
import { defineComponent, ref } from 'vue';
import { Dialog } from '../ui/dialog.tsx';
import { formatWhen } from '../ui/format.ts';
import { Menu } from '../ui/menu.tsx';
import { laterTimes, toLocalInput } from './send-later.ts';

interface LaterProps {
  /** @param sendAt RFC 3339 */
  readonly send: (sendAt: string) => void;
}

export const LaterMenu = defineComponent(
  (props: LaterProps) => {
    const chosen = ref<string>();
    const clock = (at: Date) => at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
    const items = () => [
      ...laterTimes(new Date()).map(({ label, at }) => ({
        label: `${label}, ${clock(at)}`,
        run: () => props.send(at.toISOString()),
      })),
      {
        label: 'Choose a time…',
        run: () => {
          chosen.value = toLocalInput(new Date(Date.now() + 7_200_000));
        },
      },
    ];
    const submit = (event: Event) => {
      event.preventDefault();
      event.stopPropagation();
      const at = new Date(chosen.value ?? '');
      if (Number.isNaN(at.getTime()) || at.getTime() <= Date.now()) return;
      chosen.value = undefined;
      props.send(at.toISOString());
    };
    return () => (
      <>
        <Menu label="Send later" icon="chevron" items={items} />
        {chosen.value !== undefined && (
          <Dialog
            title="Send later"
            close={() => {
              chosen.value = undefined;
            }}
          >
            <div class="field">
              <label for="send-at">Day and time ({formatWhen(new Date().toISOString())} now)</label>
              <input
                id="send-at"
                type="datetime-local"
                min={toLocalInput(new Date())}
                value={chosen.value}
                onInput={(event: Event) => {
                  chosen.value = (event.target as HTMLInputElement).value;
                }}
              />
            </div>
            <div class="buttons">
              <button type="button" class="main" onClick={submit}>
                Send then
              </button>
            </div>
          </Dialog>
        )}
      </>
    );
  },
  { props: ['send'] },
);
