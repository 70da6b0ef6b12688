-- What callers report of their model calls, learned: how many tokens a model makes of a text, for each token counted.
--
-- One row per tenant, model, encoding of the branch and kind of text. `peak` is the highest ratio of late: a higher one
-- replaces it, a lower one takes a sixteenth of the distance away. Nothing here is history, so rows do change.

create table durable_context.token_calibrations (
    tenant text not null,
    model text not null check (model <> ''),
    encoding text not null check (encoding <> ''),
    kind text not null check (kind in ('plain', 'wide', 'packed')),
    reports bigint not null check (reports >= 1),
    peak float8 not null check (peak > 0 and peak < 100),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (tenant, model, encoding, kind)
);
