#!lua flags=allow-oom
-- Stores the ends of runs: done, retry, dead, snooze, release; and plan (include/period.lua).
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks        hashes of the plain verdicts' tasks, then of the others'
-- ARGV[7] plain_count    how many plain verdicts (done, no result) follow: an id each
-- ARGV[8] fences         their fences, FENCE*COUNT for each run of the same: '17*2 19*1'
-- ARGV[9] verdict_count  how many other verdicts come after them, eight arguments each: id,
--                        fence, kind, ms (retry, release: wait; snooze: instant), detail (JSON:
--                        result or error), reason (one line for the events), counted ('1': an
--                        attempt), told ('' or what comes after it: include/period.lua)
--
-- Returns {0, now µs, codes}: of the plain, then of the others: 1 stored, 2 stored before,
--         3 refused; no codes where all are 1
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends period settle settle_plain
local plain_count, fences, verdict_count = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9])

local codes = settle_all(10, 7, plain_count, fences, verdict_count)
write_events()
return {0, now_us, codes}
