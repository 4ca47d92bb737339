#!lua flags=allow-oom
-- Takes due tasks for running, up to the caller's free slots; stores the verdicts that free
-- some of them; gives back a few expired leases and prunes a few ended tasks on the way.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7]  record             string: the caller's last claim
-- KEYS[8..] tasks             hashes of the plain verdicts' tasks, then of the others'
-- ARGV[7]  sequence           number of the claim: repeated, it answers the same tasks again
-- ARGV[8]  want               most tasks to take
-- ARGV[9]  early              also take tasks that come due within this many ms ...
-- ARGV[10] lead               ... and treat those within this many ms as running
-- ARGV[11] lease              ms until the claim ends unless renewed
-- ARGV[12] bound              leases that ended up to this ms are given back
-- ARGV[13] max_interruptions  lost runs before a task is dead
-- ARGV[14] done_count         retention of done tasks: number ...
-- ARGV[15] done_age           ... and age in ms
-- ARGV[16] dead_count         retention of dead tasks: number ...
-- ARGV[17] dead_age           ... and age in ms
-- ARGV[18] limit              '' or the limits of the type (include/limit.lua)
-- ARGV[19] plain_count        how many plain verdicts follow, an id each ...
-- ARGV[20] fences             ... and their fences (finish.lua) ...
-- ARGV[21] verdict_count      ... and others, eight arguments each (finish.lua)
--
-- Returns {0, now µs, fence, plain, rows (include/take.lua), verdict codes (finish.lua),
--          ms when to look again or '' (also while the type is paused), next lease end ms or ''}
--         {-1, now µs} too late; {-2, now µs} a newer claim of this caller was seen
--
-- @include type guard events live load pack ends period settle settle_plain recover anew prune refuse window keyed limit weigh series take back replay
local record, sequence, want, early, lead = KEYS[7], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local lease, bound, max_interruptions = tonumber(ARGV[11]), ARGV[12], ARGV[13]
local done_count, done_age, dead_count, dead_age = ARGV[14], ARGV[15], ARGV[16], ARGV[17]
local limit, plain_count, fences = ARGV[18], tonumber(ARGV[19]), ARGV[20]
local verdict_count = tonumber(ARGV[21])

local last = redis.call('GET', record)
local last_sequence = last and tonumber(string.match(last, '^%d+')) or 0
if tonumber(sequence) < last_sequence then
  return {-2, now_us}
end
local codes = settle_all(22, 8, plain_count, fences, verdict_count)
local known = redis.call('HMGET', meta, 'fence', 'lease', 'paused', 'weighs')
local is_paused, limits = known[3], limits_of(limit)
local plain, rows, ids, fence, is_left
if tonumber(sequence) == last_sequence then
  plain = {}
  rows, fence = replay(last, lease, is_paused)
else
  recover(tonumber(bound), lease, known[2], tonumber(max_interruptions), '20')
  fence = int(math.max((number(known[1]) or 0) + 1, now_us))
  local most = is_paused and 0 or tonumber(want)
  most = limits.cut and limits.cut(most) or most
  is_left = known[4] and order(most)
  plain, rows, ids = take(most, tonumber(early), tonumber(lead), lease, fence, limits.keys)
  if #ids > 0 then
    redis.call('HSET', meta, 'fence', fence, 'lease', int(math.max(number(known[2]) or 0, lease)))
  end
  redis.call('SET', record, sequence .. '\n' .. cmsgpack.pack({fence, unpack(ids)}), 'PX', int(lease * 2))
end
-- As many as can end until the next claim, and a few more: what was too many becomes less.
local spare = math.max(plain_count + verdict_count, tonumber(want)) + 10
prune(done, tonumber(done_count), done_age, spare)
prune(dead, tonumber(dead_count), dead_age, spare)
local next_due = is_left and int(now) or redis.call('ZRANGE', due, '0', '0', 'WITHSCORES')[2] or ''
if is_paused then
  next_due = ''
elseif limits.cut and ids then
  next_due = limits.settle(fence, plain, rows, next_due)
end
write_events()
local next_end = redis.call('ZRANGE', leased, '0', '0', 'WITHSCORES')[2] or ''
return {0, now_us, fence, plain, rows, codes, next_due, next_end}
