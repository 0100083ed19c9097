/**
 * The one script that runs beside a mail. The frame of a mail has no origin, so the page cannot measure it, and keys
 * pressed in it do not reach the page: this script tells both. A link to another part of the mail would lead the frame to
 * the page's own URL, which the policy stops, and the mail would be gone: the page is told how far to scroll. The script
 * is a constant: the policies of page and frame name its hash, so that no script of the mail runs.
 */

/**
 * It stands before everything of the mail, and takes what it needs before any element exists: an element with
 * `name="documentElement"` would hide that member of `document`.
 */
export const FRAME_SCRIPT = `(() => {
  const root = document.documentElement;
  const page = parent;
  const view = window;
  const find = document.querySelector.bind(document);
  const tell = (told) => page.postMessage(told, '*');
  const measure = () => {
    const over = root.scrollHeight > view.innerHeight ? root.scrollHeight : 0;
    tell({ height: Math.ceil(Math.max(root.getBoundingClientRect().height, over)) });
  };
  new ResizeObserver(measure).observe(root);
  addEventListener('load', measure);
  addEventListener('keydown', ({ key, target, altKey, ctrlKey, metaKey, isComposing, repeat }) => {
    if (altKey || ctrlKey || metaKey || isComposing || repeat) return;
    if (target.isContentEditable || /^(input|textarea|select|summary)$/.test(target.localName)) return;
    tell({ key });
  });
  addEventListener('click', (event) => {
    const link = event.target.closest('a[href^="mailto:" i], a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    const href = link.getAttribute('href');
    if (href[0] !== '#') return tell({ mailto: href });
    const name = CSS.escape(decodeURIComponent(href.slice(1)));
    const goal = name === '' ? root : find('[id="' + name + '"], a[name="' + name + '"]');
    if (goal) tell({ top: goal.getBoundingClientRect().top });
  });
})();`;

/** Of the script, as a source of a Content-Security-Policy; a test compares them. */
export const FRAME_SCRIPT_HASH = 'sha256-sPmtNj4rKohoVmyHCZnidAZ7wfu5jR0O69S8qfSUNIs=';

/**
 * Rights of the frame. Never `allow-same-origin` beside `allow-scripts`: the mail could then reach the page. A link
 * that the reader clicks opens a new tab.
 */
export const FRAME_RIGHTS = 'allow-scripts allow-popups allow-popups-to-escape-sandbox';

/** Pixels. A mail that claims to be higher scrolls in its frame. */
const HEIGHT_MAX = 30_000;
const HEIGHT_MIN = 24;
/** Keys that the page may be told of. Nothing of a mail can press one, and what they do can be undone. */
const KEY =
  /^(?:[\x21-\x7e]|Escape|ArrowUp|ArrowDown|ArrowLeft|ArrowRight|PageUp|PageDown|Home|End)$/;

/** What a frame told, checked; undefined where it is nothing that the script tells. */
export function readFrameMessage(
  told: unknown,
): { height: number } | { key: string } | { mailto: string } | { top: number } | undefined {
  if (typeof told !== 'object' || told === null) return undefined;
  if ('height' in told && typeof told.height === 'number' && Number.isFinite(told.height)) {
    return { height: Math.min(HEIGHT_MAX, Math.max(HEIGHT_MIN, Math.round(told.height))) };
  }
  // Pixels from the top of the mail.
  if ('top' in told && typeof told.top === 'number' && Number.isFinite(told.top)) {
    return { top: Math.min(HEIGHT_MAX, Math.max(0, told.top)) };
  }
  if ('key' in told && typeof told.key === 'string' && KEY.test(told.key)) return { key: told.key };
  if ('mailto' in told && typeof told.mailto === 'string' && told.mailto.length <= 2000) {
    return { mailto: told.mailto };
  }
  return undefined;
}
