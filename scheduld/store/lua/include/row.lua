-- Where some ids are, an index a command: {their dues, lease ends, finished, died}, false for none.
local function scores_of(ids)
  local scores = {{}, {}, {}, {}}
  for part, index in ipairs(#ids > 0 and {due, leased, done, dead} or {}) do
    scores[part] = redis.call('ZMSCORE', index, unpack(ids))
  end
  return scores
end

-- The task at a place of those ids as it is stored: {due, lease end, finished, died (ms or ''),
-- hash as a flat list, type of the key}.
local function row_of(scores, place, key)
  local fields, kind = redis.pcall('HGETALL', key), 'hash'
  if fields.err or #fields == 0 then
    fields, kind = {}, redis.call('TYPE', key).ok
  end
  return {
    scores[1][place] or '',
    scores[2][place] or '',
    scores[3][place] or '',
    scores[4][place] or '',
    fields,
    kind,
  }
end
