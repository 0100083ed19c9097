/** Drawings of 20 pixels; each stands beside a word, or in a button that has a label. */

const paths = {
  archive: 'M3 4h14v3H3zM4 7v9h12V7M8 10.5h4',
  attach:
    'm15 9-5.5 5.5a3.2 3.2 0 0 1-4.5-4.5l6-6a2.1 2.1 0 0 1 3 3l-5.8 5.8a1 1 0 0 1-1.4-1.4L12 6.2',
  back: 'm11.5 4.5-5.5 5.5 5.5 5.5M6.5 10H17',
  check: 'm4 10.5 4 4 8-9',
  chevron: 'm6 8 4 4 4-4',
  up: 'm6 12 4-4 4 4',
  close: 'm5 5 10 10M15 5 5 15',
  code: 'm7 6-4 4 4 4m6-8 4 4-4 4',
  delete: 'M3.5 5.5h13M8 5.5V3.5h4v2M5 5.5l.8 11h8.4l.8-11M8.4 8.5v5m3.2-5v5',
  download: 'M10 3v9m-4-3.5 4 4 4-4M3.5 16h13',
  draft: 'M12.5 3.5 16.5 7.5 7.5 16.5H3.5v-4zM10.5 5.5l4 4',
  edit: 'M12.5 3.5 16.5 7.5 7.5 16.5H3.5v-4z',
  expand: 'M12 3.5h4.5V8M16.5 3.5l-5 5M8 16.5H3.5V12M3.5 16.5l5-5',
  folder: 'M2.5 5.5v10h15v-8h-8l-2-2z',
  forward: 'm12 4.5 5 5-5 5v-3c-5 0-8 1.5-9.5 4.5 0-5 3-8.5 9.5-8.500z',
  inbox: 'M3 11.5 5.5 4h9L17 11.500v4.500H3zM3 11.500h4c0 2 1.2 2.5 3 2.500s3-.5 3-2.500h4',
  mail: 'M2.5 5h15v11h-15zM3 5.500l7 6 7-6',
  menu: 'M3 5.500h14M3 10h14M3 14.500h14',
  more: 'M4 9.500h1v1H4zm5.5 0h1v1h-1zm5.5 0h1v1h-1z',
  move: 'M2.5 5.500v10h15v-8h-8l-2-2zM8 11.500h5m-2-2 2 2-2 2',
  plus: 'M10 4v12M4 10h12',
  print: 'M6 7V3h8v4M6 14H3V7h14v7h-3M6 11.500h8V17H6z',
  read: 'M3 8.5 10 4l7 4.500V16H3zM3.5 9l6.5 4 6.5-4',
  refresh: 'M16 10a6 6 0 1 1-1.8-4.3L16 7.5M16 3.5v4h-4',
  reply: 'm8 4.5-5 5 5 5v-3c5 0 8 1.5 9.5 4.5 0-5-3-8.5-9.5-8.500z',
  'reply-all':
    'M11 7.500c4 .5 6.5 3 6.5 7.5-1.5-2.5-3.5-3.5-6.5-3.500v3l-5-5 5-5zM6 4.500l-4.5 5L6 14',
  search: 'm13 13 4 4M8.5 14.500a6 6 0 1 0 0-12 6 6 0 0 0 0 12',
  send: 'M17 3 3 9l5 2.500L11 17zM8 11.5 17 3',
  settings:
    'M10 12.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M10 2.500v2m0 11v2M2.5 10h2m11 0h2M4.7 4.700l1.4 1.400m7.8 7.8 1.4 1.400m0-10.6-1.4 1.400m-7.8 7.8-1.4 1.4',
  spam: 'M7 2.500h6L17.5 7v6L13 17.500H7L2.5 13V7zM10 6.500v4.500m0 2.500v.1',
  star: 'm10 2.8 2.2 4.6 5 .7-3.6 3.5.9 5L10 14.200l-4.5 2.4.9-5L2.8 8.100l5-.7z',
  undo: 'M6.5 4 3 7.5 6.5 11M3.5 7.500H12a4.3 4.3 0 0 1 0 8.500H7',
} as const;

export type IconName = keyof typeof paths;

interface IconProps {
  readonly name: IconName;
  /** Filled in place of outlined: a star that is set. */
  readonly filled?: boolean;
}

export const Icon = ({ name, filled }: IconProps) => (
  <svg class={['icon', { filled }]} viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
    <path d={paths[name]} />
  </svg>
);
