-- Stores plain ends: done, with no result. Most ends are: they move between the indexes in one
-- step for all, and leave no word in the hash, because being in done says it.

-- Whether the hash is that of a plain run of this claim: a payload, maybe a token, and what
-- claim and start write. Then it has not failed or been lost, cancelled or replaced.
local function is_plain(key, fence)
  local size = redis.pcall('HLEN', key)
  if size == 5 or size == 6 then
    local more = redis.call('HMGET', key, 'token', 'started')
    size = size - (more[1] and 1 or 0) - (more[2] and 1 or 0)
  end
  if size ~= 4 then
    return false
  end
  local task = redis.call('HMGET', key, 'fence', 'cancel')
  return task[1] == fence and not task[2]
end

-- Of those that are not held, some are done already, or stand in the call twice. Answers the
-- rest; the others are 2 in codes.
local function not_done(ids, places, codes)
  local finished, left, is_taken = redis.call('ZMSCORE', done, unpack(ids)), {}, {}
  for index, id in ipairs(ids) do
    if finished[index] or is_taken[id] then
      codes[places[index]] = 2
    else
      left[#left + 1], is_taken[id] = id, true
    end
  end
  return left
end

local function end_all(ids, places, codes)
  local is_stored = redis.call('ZREM', leased, unpack(ids)) == #ids
  freed = true
  if not is_stored then
    ids = not_done(ids, places, codes)
  end
  local at, scores = int(now), {}
  for index = 1, #ids do
    scores[index * 2 - 1], scores[index * 2] = at, ids[index]
  end
  if #ids > 0 then
    redis.call('ZADD', done, unpack(scores))
    note_all('done', ids)
  end
  return is_stored
end

-- The fence of each verdict; runs of the same one are told as FENCE*COUNT, one after the other.
local function expand(fences)
  local all = {}
  for fence, count in string.gmatch(fences, '(%d+)*(%d+)') do
    for _ = 1, tonumber(count) do
      all[#all + 1] = fence
    end
  end
  return all
end

-- Ids are ARGV from first on, their tasks' hashes KEYS from first_key on. Writes a code each into
-- codes (include/settle.lua); answers whether each of them was stored.
local function settle_plain(first, first_key, count, fences, codes)
  if count == 0 then
    return true
  end
  local ids, ended, places, others = {unpack(ARGV, first, first + count - 1)}, {}, {}, {}
  local again = scores_of(due, ids)
  fences = expand(fences)
  for index = 1, count do
    if not again[index] and is_plain(KEYS[first_key + index - 1], fences[index]) then
      local place = #ended + 1
      ended[place], places[place], codes[index] = ids[index], index, 1
    else
      others[#others + 1] = index
    end
  end
  local is_stored = #ended == 0 or end_all(ended, places, codes)
  for _, index in ipairs(others) do
    codes[index] = settle(KEYS[first_key + index - 1], ids[index], fences[index], 'done', '0', '', '',
      '1', '')
    is_stored = is_stored and codes[index] == 1
  end
  return is_stored
end

-- Stores plain ends, then the others: verdicts of eight arguments each. Answers a code each,
-- or none at all if each of them is 1.
local function settle_all(first, first_key, plain_count, fences, verdict_count)
  local codes = {}
  local is_stored = settle_plain(first, first_key, plain_count, fences, codes)
  for index = 1, verdict_count do
    local at = first + plain_count + (index - 1) * 8
    local code = settle(KEYS[first_key + plain_count + index - 1], ARGV[at], ARGV[at + 1],
      ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6],
      ARGV[at + 7])
    codes[plain_count + index] = code
    is_stored = is_stored and code == 1
  end
  return is_stored and {} or codes
end
