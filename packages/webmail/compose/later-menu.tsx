/** Sends a message at a time of one's choice. */
import { formatClock, formatWhen } from '../ui/format.ts';
import { Menu } from '../ui/menu.tsx';
import { ask } from '../ui/questions.tsx';
import { laterTimes, toLocalInput } from './send-later.ts';

type Send = (at: Date) => void;

export const LaterMenu = ({ send }: { send: Send }) => {
  const items = () => [
    ...laterTimes(new Date()).map(({ label, at }) => ({
      label: `${label}, ${formatClock(at)}`,
      run: () => send(at),
    })),
    { label: 'Choose a time…', run: () => askWhen(send) },
  ];
  return <Menu label="Send later" icon="chevron" items={items} />;
};

function askWhen(send: Send): void {
  const now = new Date();
  ask({
    title: 'Send later',
    action: 'Send then',
    field: {
      label: `Day and time (${formatWhen(now.toISOString())} now)`,
      type: 'datetime-local',
      value: toLocalInput(new Date(now.getTime() + 7_200_000)),
      min: toLocalInput(now),
    },
    async run(text) {
      const at = new Date(text);
      if (at.getTime() <= Date.now()) throw new Error('This time is over.');
      send(at);
    },
  });
}
