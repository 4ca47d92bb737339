#!lua flags=allow-oom
-- Lets the ticks of a schedule come again, from now on or from where it was paused.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7]  cron      hash of the schedule
-- ARGV[7]  name      name of the schedule
-- ARGV[8]  catch_up  '1': the watermark stays, so that what was missed is caught up with
-- ARGV[9]  gap_from  '' or the first instant that was passed over (ms) ...
-- ARGV[10] gap_to    ... the last ...
-- ARGV[11] gap_n     ... and how many
--
-- Returns {0, now µs, code, mark}: 1 resumed, 2 it was not paused, 15 gone, 17 broken key, 18 moved;
--         the watermark, ms
--         {-1, now µs} too late
--
-- @include type guard events live changed
local cron, name, catch_up = KEYS[7], ARGV[7], ARGV[8]
local gap_from, gap_to, gap_n = ARGV[9], ARGV[10], ARGV[11]

local one, mark = schedule(name, cron), 0
local known = one.read()
local code = closed(known) or known.paused and 1 or 2
if code == 1 then
  mark = catch_up == '1' and known.mark or now
  if gap_to ~= '' then
    one.record(known, 'gap', 'from', gap_from, 'to', gap_to, 'n', gap_n, 'why', 'paused')
  end
  redis.call('HDEL', cron, 'paused', 'pause_reason', 'pause_who')
  redis.call('HSET', cron, 'mark', int(mark))
  if known.queued and one.unfinished(1) == 0 then
    one.release(known)
  end
end
write_events()
tell_change(name)
return {0, now_us, code, int(mark)}
