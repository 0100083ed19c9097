/** What stands around every screen: the menu, the theme, signing out. */
import { defineComponent, onMounted, type Ref, ref, watch } from 'vue';
import { RouterLink, RouterView, useRoute } from 'vue-router';
import { attention, followAttention } from './api/attention.ts';
import { session } from './api/client.ts';
import { openPalette, Palette } from './palette.tsx';
import { density, live, theme, zone } from './remembered.ts';
import { menu, screenOf } from './router.ts';
import { leave } from './sign-out.ts';
import { Questions } from './ui/dialogs.tsx';
import { formatCompact, formatNumber } from './ui/format.ts';
import { Help, isHelpOpen } from './ui/keys.tsx';
import { Messages } from './ui/messages.tsx';
import { Icon } from './ui/state.tsx';
import { Works } from './ui/work.tsx';

export const Shell = defineComponent(() => {
  const route = useRoute();
  const isMenuOpen = ref(false);
  watch(
    () => route.fullPath,
    () => {
      isMenuOpen.value = false;
    },
  );
  const toggle = () => {
    isMenuOpen.value = !isMenuOpen.value;
  };
  const closeByEscape = (event: KeyboardEvent) => {
    if (event.key === 'Escape') isMenuOpen.value = false;
  };
  onMounted(() => addEventListener('keydown', closeByEscape));
  return () => (
    <div class={['shell', { alone: !session.current }]}>
      <a class="skip" href="#main">
        To the content
      </a>
      <header class="bar">
        {session.current && (
          <button
            type="button"
            class="plain burger"
            aria-expanded={isMenuOpen.value}
            aria-controls="menu"
            onClick={toggle}
          >
            Menu
          </button>
        )}
        <RouterLink class="name" to="/">
          {() => [<Mark />, <span>Postroom</span>, <span class="soft">console</span>]}
        </RouterLink>
        {session.current && (
          <button type="button" class="plain go-to" onClick={openPalette}>
            <Icon name="search" /> <span>Go to</span> <kbd>Ctrl K</kbd>
          </button>
        )}
        {session.current && <Controls />}
      </header>
      <Works />
      {session.current && <Menu isOpen={isMenuOpen.value} />}
      {session.current && <Palette />}
      <main id="main" tabindex="-1">
        <RouterView key={screenOf(route)} />
      </main>
      <Questions />
      <Help />
      <Messages />
    </div>
  );
});

const openHelp = () => {
  isHelpOpen.value = true;
};

const Menu = defineComponent(
  (props: { isOpen: boolean }) => {
    followAttention();
    return () => <MenuLists isOpen={props.isOpen} />;
  },
  { props: ['isOpen'] },
);

/** How many things of a screen need somebody; nothing where none does. */
function Badge({ path }: { path: string }) {
  const counts = attention.value?.data.value?.counts;
  const [amount, what] =
    path === '/queue'
      ? [counts?.waiting, 'waiting']
      : path === '/domains'
        ? [counts?.cannot_send, 'cannot send']
        : [];
  if (!amount) return null;
  return (
    <span class="badge" title={`${formatNumber(amount)} ${what}`}>
      {formatCompact(amount)}
      <span class="unseen"> {what}</span>
    </span>
  );
}

/** Postroom says so in the page where its operator switched the webmail off. */
const hasWebmail = !document.querySelector('meta[name="webmail"][content="off"]');

function MenuLists({ isOpen }: { isOpen: boolean }) {
  return (
    <nav id="menu" class={['menu', { open: isOpen }]} aria-label="Console">
      {menu.map((group) => (
        <ul key={group[0]?.path}>
          {group.map(({ path, title }) => (
            <li key={path}>
              <RouterLink
                to={path}
                activeClass={path === '/' ? '' : 'here'}
                exactActiveClass="here"
              >
                {() => [title, <Badge path={path} />]}
              </RouterLink>
            </li>
          ))}
        </ul>
      ))}
      <ul class="elsewhere">
        <li>
          <a href="/docs/guides/console">Documentation</a>
        </li>
        {hasWebmail && (
          <li>
            <a href="/webmail/">Webmail</a>
          </li>
        )}
        <li>
          <button type="button" class="link" onClick={openHelp}>
            Keyboard
          </button>
        </li>
        <li>
          <Choice name="colours" label="Colours" choices={themes} choice={theme} />
        </li>
        <li class="when-narrow">
          <Choice name="zone-menu" label="Times" choices={zones} choice={zone} />
        </li>
        <li>
          <Choice name="rows" label="Rows" choices={densities} choice={density} />
        </li>
      </ul>
    </nav>
  );
}

/** What stands at the right of the bar. */
function Controls() {
  const toggle = () => {
    live.value = live.value === 'on' ? 'off' : 'on';
  };
  return (
    <div class="controls">
      <button
        type="button"
        class="plain live"
        role="switch"
        aria-checked={live.value === 'on'}
        title="New rows come into lists by themselves"
        onClick={toggle}
      >
        <i /> Live
      </button>
      <Choice name="zone" label="Time zone" isBare={true} choices={zones} choice={zone} />
      <button type="button" class="plain" onClick={() => void leave()}>
        Sign out
      </button>
    </div>
  );
}

/** The offset as the zone has it now: `GMT+1`. */
const offset = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'short' })
  .formatToParts()
  .find(({ type }) => type === 'timeZoneName')?.value;
const zones = [
  ['local', `Local (${offset})`],
  ['UTC', 'UTC'],
] as const;

interface ChoiceProps<Value extends string> {
  readonly name: string;
  readonly label: string;
  readonly choices: readonly (readonly [value: Value, label: string])[];
  readonly choice: Ref<Value>;
  /** The label is for screen readers alone. */
  readonly isBare?: boolean;
}

function Choice<Value extends string>(props: ChoiceProps<Value>) {
  const { name, label, choices, choice, isBare } = props;
  const choose = (event: Event) => {
    choice.value = (event.target as HTMLSelectElement).value as Value;
  };
  return (
    <div class="setting">
      <label for={name} class={{ unseen: isBare }}>
        {label}
      </label>
      <select id={name} value={choice.value} onChange={choose}>
        {choices.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

const themes = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;
const densities = [
  ['normal', 'Normal'],
  ['compact', 'Compact'],
] as const;

const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
    <rect x="2" y="6" width="28" height="20" rx="3" fill="#c8402f" />
    <path
      d="M4.5 9.5 16 18.5l11.5-9"
      fill="none"
      stroke="#fff"
      stroke-width="2.4"
      stroke-linecap="round"
      stroke-linejoin="round"
    />
  </svg>
);
